<?php
echo 'out';
flush();
header('X-Late: 1');
echo headers_sent() ? ' sent' : ' not sent';
