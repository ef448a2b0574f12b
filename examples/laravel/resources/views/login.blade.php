<!DOCTYPE html>
<title>Who are you?</title>
<form method="post" action="{{ url('/login') }}">
  @csrf
  <input name="name"> <button>Log in</button>
</form>
