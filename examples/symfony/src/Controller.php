<?php

namespace App;

use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\RequestStack;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Generator\UrlGeneratorInterface;
use Twig\Environment;

/** One method a page; none keeps anything in the object, so any number of requests may share it. */
final class Controller
{
    private const ROWS = 60;

    public function __construct(
        private Environment $twig,
        private RequestStack $stack,
        private UrlGeneratorInterface $urls,
    ) {
    }

    /** The least that an application can answer: all of its cost is the framework. */
    public function empty(): Response
    {
        return new JsonResponse(['errno' => 0, 'errmsg' => 'success', 'data' => 'e']);
    }

    /** A list as a shop would show it; its rows go through Twig's filters and escaping. */
    public function page(Request $request): Response
    {
        $items = [];
        for ($number = 0; $number < self::ROWS; ++$number) {
            $items[] = [
                'name' => "item $number",
                'price' => $number * 1.37,
                'note' => "<b>number & $number</b>",
            ];
        }

        return new Response($this->twig->render('page.html.twig', [
            'title' => 'Items of '.$request->getPathInfo(),
            'items' => $items,
        ]));
    }

    /** Gives back what it was sent: fields, and for each file its name, size and hash. */
    public function form(Request $request): Response
    {
        $files = [];
        foreach ($request->files->all() as $field => $file) {
            $files[$field] = [
                'name' => $file->getClientOriginalName(),
                'size' => $file->getSize(),
                'sha256' => hash_file('sha256', $file->getPathname()),
            ];
        }

        return new JsonResponse([
            'query' => $request->query->all(),
            'fields' => $request->request->all(),
            'files' => $files,
            'length' => \strlen($request->getContent()),
        ]);
    }

    /** Counts the visits of one session. */
    public function session(Request $request): Response
    {
        $session = $request->getSession();
        $visits = $session->get('visits', 0) + 1;
        $session->set('visits', $visits);

        return new JsonResponse(['visits' => $visits, 'id' => $session->getId()]);
    }

    /** Logs in: whoever says a name is believed. */
    public function login(Request $request): Response
    {
        $session = $request->getSession();
        $session->migrate(true);
        $session->set('name', (string) $request->request->get('name'));

        return new Response('', Response::HTTP_NO_CONTENT);
    }

    /** Greets who has logged in by name, and everybody else without one. */
    public function hello(Request $request): Response
    {
        $name = $request->hasPreviousSession() ? $request->getSession()->get('name') : null;

        return new Response($this->twig->render('hello.html.twig', ['name' => $name]));
    }

    /**
     * Asks a service, which takes its time, and then says what the parts of the application take
     * for the current request: those that are handed the request need not ask, all others do.
     */
    public function ask(Request $request): Response
    {
        $session = $request->getSession();
        $session->set('name', $request->query->get('name'));
        $answer = file_get_contents($_SERVER['ASKED_SERVICE'].$request->query->get('name'));

        return new JsonResponse([
            'service' => $answer,
            'request' => $request->query->get('name'),
            'stack' => $this->stack->getMainRequest()?->query->get('name'),
            'session' => $this->stack->getSession()->get('name'),
            'router' => $this->urls->generate('ask', [], UrlGeneratorInterface::ABSOLUTE_URL),
            'twig' => trim($this->twig->render('asked.html.twig')),
        ]);
    }

    /** Fails, so that the error page and the log can be seen. */
    public function error(): Response
    {
        throw new \RuntimeException('This page always fails.');
    }
}
