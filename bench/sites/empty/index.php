<?php

header('Content-Type: application/json');
echo '{"errno":0,"errmsg":"success","data":"e"}';
