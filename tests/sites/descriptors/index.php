<?php
echo 'classic';
