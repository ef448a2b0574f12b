<?php
echo 'run ', $_SERVER['PATH_INFO'] ?? '';
