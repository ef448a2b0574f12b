<?php
// A site has to have something to serve. Nobody runs it.
