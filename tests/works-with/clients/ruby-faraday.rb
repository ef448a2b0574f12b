# Debian: ruby-faraday ruby
require 'faraday'

use, url, other = ARGV
$stdout.sync = true
client = Faraday.new(ssl: { ca_file: ENV['AUTHORITY'] })
case use
when 'page', 'compressed'
  print client.get(url).body
when 'kept'
  print client.get(url).body, client.get(other).body
when 'range'
  part = File.binread(other)
  fields = { 'Range' => "bytes=#{part.size}-", 'Accept-Encoding' => 'identity' }
  print part, client.get(url, {}, fields).body
when 'upload'
  print client.post(url, File.binread(other), 'Content-Type' => 'text/plain').body
else
  exit 64
end
