<?php
error_log('a message for ' . $_GET['name']);
echo $undefined;
echo 'logged';
