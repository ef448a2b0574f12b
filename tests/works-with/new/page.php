<?php
echo 'text';
