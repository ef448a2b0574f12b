# Debian: ruby-typhoeus ruby
require 'typhoeus'

use, url, other = ARGV
$stdout.sync = true
ask = lambda do |text, **more|
  answer = Typhoeus::Request.new(text, cainfo: ENV['AUTHORITY'], **more).run
  abort answer.return_message if answer.return_code != :ok
  print answer.body
end
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
  ask[url, method: :post, body: File.binread(other), headers: { 'Content-Type' => 'text/plain' }]
when 'compressed'
  ask[url, accept_encoding: 'gzip']
end
