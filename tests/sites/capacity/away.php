<?php
header('Location: /');
