<?php
header('Location: /index.php', true, 302);
