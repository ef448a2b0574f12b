<?php
echo 'other site ', $_SERVER['SERVER_NAME'];
