# Debian: ruby-excon ruby
require 'excon'

use, url, other = ARGV
$stdout.sync = true
uri = URI(url)
client = Excon.new("https://#{uri.host}:#{uri.port}", persistent: true, ssl_ca_file: ENV['AUTHORITY'])
ask = ->(text, **more) { print client.request(method: :get, path: URI(text).path, query: URI(text).query, **more).body }
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
  ask[url, headers: { 'Range' => "bytes=#{part.size}-" }]
when 'upload'
  ask[url, method: :post, body: File.open(other)]
when 'compressed'
  middlewares = Excon.defaults[:middlewares] + [Excon::Middleware::Decompress]
  ask[url, middlewares: middlewares]
end
