<!DOCTYPE html>
<title>{{ config('app.name') }}</title>
<p>Hello {{ $name ?? 'stranger' }}, this is {{ url()->current() }}.</p>
<table>
@foreach ($rows as $row)
  <tr><td>{{ $row }}</td><td>{{ $row % 2 ? 'odd' : 'even' }}</td></tr>
@endforeach
</table>
