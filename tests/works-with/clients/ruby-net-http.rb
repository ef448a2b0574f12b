# Debian: ruby
require 'net/http'

use, url, other = ARGV
$stdout.sync = true
uri = URI(url)
http = Net::HTTP.new(uri.host, uri.port)
http.use_ssl = true
http.ca_file = ENV['AUTHORITY']
http.keep_alive_timeout = 60 # it closes connections after two seconds by itself
http.start do
  ask = lambda do |text, headers = {}|
    print http.get(URI(text).request_uri, headers).body
  end
  case use
  when 'page', 'compressed'
    ask[url]
  when 'kept', 'later'
    ask[url]
    $stdin.gets if use == 'later'
    ask[other]
  when 'range'
    part = File.binread(other)
    print part
    ask[url, { 'Range' => "bytes=#{part.size}-", 'Accept-Encoding' => 'identity' }]
  when 'upload'
    request = Net::HTTP::Post.new(uri, 'Expect' => '100-continue', 'Content-Type' => 'text/plain')
    request.body_stream = File.open(other)
    request.content_length = File.size(other)
    print http.request(request).body
  end
end
