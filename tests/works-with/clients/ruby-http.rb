# Debian: ruby-http ruby
require 'http'

use, url, other = ARGV
$stdout.sync = true
context = OpenSSL::SSL::SSLContext.new
context.set_params(ca_file: ENV['AUTHORITY'])
uri = URI(url)
client = HTTP.persistent("https://#{uri.host}:#{uri.port}")
ask = ->(text, method = :get, more = {}) { print client.request(method, text, ssl_context: context, **more) }
case use
when 'page'
  ask[url]
when 'kept', 'later'
  ask[url]
  $stdin.gets if use == 'later'
  ask[other]
when 'range'
  part = File.binread(other)
  print part
  ask[url, :get, headers: { 'Range' => "bytes=#{part.size}-" }]
when 'upload'
  ask[url, :post, body: File.open(other)]
when 'compressed'
  client = HTTP.use(:auto_inflate).headers('Accept-Encoding' => 'gzip')
  ask[url]
end
