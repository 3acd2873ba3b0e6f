package snippet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/nginx/snippet"
)

// shown writes directives in one form: words in quotes, blocks in braces, and lines.
func shown(list []snippet.Directive) string {
	var out strings.Builder
	for i := range list {
		d := &list[i]
		fmt.Fprintf(&out, "%d:%s", d.Line, d.Name)
		for _, word := range d.Words {
			fmt.Fprintf(&out, " %q", word)
		}
		if d.Block {
			out.WriteString(" {" + shown(d.Inner) + "}")
		}
		out.WriteString(";")
	}
	return out.String()
}

// TestParse: words, quotes, escapes, comments, blocks and lines are read as nginx does.
func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"# nothing\n", ""},
		{"a;", "1:a;"},
		{"a b  c\t;", `1:a "b" "c";`},
		{"a\n  b\n;\nc d;", `1:a "b";4:c "d";`},
		{`a "b c" 'd "e"';`, `1:a "b c" "d \"e\"";`},
		{`a "b\"c" d\ e \. \\ "\n";`, `1:a "b\"c" "d\\ e" "\\." "\\" "\n";`},
		{`a b#c "#d"; # e ;`, `1:a "b#c" "#d";`},
		{`a ${b}c $d{e;}`, `1:a "${b}c" "$d" {1:e;};`},
		{"if ($a = \"b\") {\n c;\n}\nd;", `1:if "($a" "=" "b" ")" {2:c;};4:d;`},
		{"location /a { if ($b) { return 403; } }", `1:location "/a" {1:if "($b)" {1:return "403";};};`},
		{`"a" 'b';`, `1:a "b";`},
		{"a 'b\nc' d;\ne;", "1:a \"b\\nc\" \"d\";3:e;"},
	} {
		got, err := snippet.Parse(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if shown(got) != c.want {
			t.Errorf("%q is %s, want %s", c.text, shown(got), c.want)
		}
	}
}

// TestParseErrors: each error has its line.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a", "line 1: the directive \"a\" does not end"},
		{"a;\nb c", "line 2: the directive \"b\" does not end"},
		{"a {", "line 1: the text ends within a block"},
		{"a;\n}", "line 2: a } closes no block"},
		{";", "line 1: unexpected ';'"},
		{"a;\n{ b; }", "line 2: unexpected '{'"},
		{"a;\nb 'c;\n", "line 2: a quote does not end"},
		{`a "b"c;`, "line 1: unexpected 'c' behind a quote"},
		{"a { b; } }", "a } closes no block"},
		{"a b }", "does not end"},
		{"if ($a ~ x{2}) { }", "within a block"}, // nginx wants it in quotes
		{strings.Repeat("a { ", 6), "nested more than"},
		{strings.Repeat("a;", snippet.MaxDirectives+1), "more than 512 directives"},
		{"a" + strings.Repeat(" b", snippet.MaxWords+1) + ";", "more than 64 words"},
		{strings.Repeat("x", snippet.MaxBytes+1), "bytes"},
		{"a \xff;", "not UTF-8"},
	} {
		_, err := snippet.Parse(c.text)
		var failed *snippet.Error
		if err == nil || !errors.As(err, &failed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %q", c.text, err, c.want)
		}
	}
}

// FuzzParse: no text makes the parser panic, and what it reads is within the bounds.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "a;", "a b;", `a "b\"" 'c';`, "if ($a = b) { set $c d; }", "location / {\n return 200 \"x\"; # y\n}", "a ${b;", "a\\", `"`, "a {{{{{{", "}}}", "#", "a #\n;",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := snippet.Parse(text)
		if err != nil {
			return
		}
		count := 0
		var visit func([]snippet.Directive, int)
		visit = func(list []snippet.Directive, depth int) {
			if depth > snippet.MaxDepth {
				t.Fatalf("depth %d", depth)
			}
			for i := range list {
				d := &list[i]
				if count++; d.Line < 1 || d.Line > 1+strings.Count(text, "\n") || len(d.Words) > snippet.MaxWords || !d.Block && d.Inner != nil {
					t.Fatalf("%+v", d)
				}
				visit(d.Inner, depth+1)
			}
		}
		visit(list, 0)
		if count > snippet.MaxDirectives {
			t.Fatalf("%d directives", count)
		}
	})
}
