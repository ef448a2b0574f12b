<?php
http_response_code((int) $_GET['code']);
echo 'status ', http_response_code();
