<?php

require 'Twig/autoload.php';

$template = '<ul>{% for row in rows %}<li class="row">{{ row.name|upper }}</li>{% endfor %}</ul>';
$twig = new Twig\Environment(new Twig\Loader\ArrayLoader(['list' => $template]), ['cache' => getenv('DATA')]);
echo $twig->render('list', ['rows' => array_map(static fn (int $n): array => ['name' => "<$n>"], range(1, 200))]);
