<?php
// Announces a length of its own.
header('Content-Length: ' . $_GET['length']);
echo 'twelve bytes';
