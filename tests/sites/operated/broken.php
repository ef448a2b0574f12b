<?php
throw new RuntimeException('no boot today');
