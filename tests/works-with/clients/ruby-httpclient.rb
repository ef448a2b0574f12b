# Debian: ruby-httpclient ruby
require 'httpclient'

use, url, other = ARGV
$stdout.sync = true
client = HTTPClient.new
client.ssl_config.clear_cert_store
client.ssl_config.add_trust_ca(ENV['AUTHORITY'])
case use
when 'page'
  print client.get_content(url)
when 'kept', 'later'
  print client.get_content(url)
  $stdin.gets if use == 'later'
  print client.get_content(other)
when 'range'
  part = File.binread(other)
  print part, client.get(url, header: { 'Range' => "bytes=#{part.size}-" }).body
when 'upload'
  print client.post(url, File.open(other), 'Content-Type' => 'text/plain').body
when 'compressed'
  client.transparent_gzip_decompression = true
  print client.get_content(url)
end
