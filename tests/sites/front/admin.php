<?php
echo "admin ", $_SERVER["SCRIPT_NAME"], " [", $_SERVER["PATH_INFO"] ?? "", "]";
