<?php

namespace App;

use Illuminate\Http\JsonResponse;
use Illuminate\Http\RedirectResponse;
use Illuminate\Http\Request;
use Illuminate\View\View;
use RuntimeException;

final class Pages
{
    public function empty(): JsonResponse
    {
        return new JsonResponse(['errno' => 0, 'errmsg' => 'success', 'data' => 'e']);
    }

    public function section(Request $request): JsonResponse
    {
        return new JsonResponse(['path' => $request->path(), 'query' => $request->query()]);
    }

    public function page(Request $request): View
    {
        return view('page', ['rows' => range(1, 60), 'name' => $request->session()->get('name')]);
    }

    public function login(): View
    {
        return view('login');
    }

    public function remember(Request $request): RedirectResponse
    {
        $request->session()->put('name', $request->input('name'));
        return redirect('/');
    }

    public function error(): never
    {
        throw new RuntimeException('The page that fails has failed.');
    }

    /** Not caught by the kernel: Laravel answers from its shutdown function. */
    public function fatal(): never
    {
        ini_set('memory_limit', memory_get_usage(true) + (4 << 20));
        str_repeat('x', 1 << 30);
    }
}
