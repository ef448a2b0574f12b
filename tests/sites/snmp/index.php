<?php
// Only classic mode runs this file.
