package route_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/route"
)

// TestParseVariables: texts with variables, and what is refused.
func TestParseVariables(t *testing.T) {
	parts, err := route.ParseVariables("https://${host}x$request_uri?a=$http_x_one-$cookie_a")
	var got []string
	for _, part := range parts {
		got = append(got, part.Literal+"|"+part.Variable+"|"+part.Name)
	}
	const want = "https://|| |host| x|| |request_uri| ?a=|| |http_|x_one -|| |cookie_|a"
	if strings.Join(got, " ") != want || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for text, fragment := range map[string]string{
		"$": "a $ without a name", "a${host": "a $ without a name", "${ho-st}": "a $ without a name", "$unknown": "no variable $unknown", "$http_": "no variable $http_",
		"$upstream_http_x": "no variable", strings.Repeat("$host ", 40): "more than 32 variables",
	} {
		if _, err := route.ParseVariables(text); err == nil || !strings.Contains(err.Error(), fragment) {
			t.Errorf("%.20q: %v, want %q", text, err, fragment)
		}
	}
	if parts, err := route.ParseVariables(""); len(parts) != 0 || err != nil {
		t.Errorf("an empty text: %v, %v", parts, err)
	}
}

// FuzzParseVariables: the parts have all of the text.
func FuzzParseVariables(f *testing.F) {
	for _, text := range []string{"", "$host", "${host}", "a$http_x$", "$$", "https://$host/?rd=$escaped_request_uri"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := route.ParseVariables(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, part := range parts {
			again.WriteString(part.Literal)
			if part.Variable != "" {
				again.WriteString("${" + part.Variable + part.Name + "}")
			}
		}
		plain := strings.NewReplacer("{", "", "}", "")
		if plain.Replace(again.String()) != plain.Replace(text) {
			t.Fatalf("%q became %q", text, again.String())
		}
	})
}
