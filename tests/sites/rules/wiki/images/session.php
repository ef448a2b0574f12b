<?php
// What session_start() sends.
header('Expires: Thu, 19 Nov 1981 08:52:00 GMT');
