package cli_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
)

// TestPrintedScan: commands are found in each kind of text, with the words that
// belong to them.
func TestPrintedScan(t *testing.T) {
	root := cli.Tree()
	for _, test := range []struct{ name, file, text, want string }{
		{"a message", "a.go", `package a; var _ = "run slipway login URL, or slipway config use NAME."`, "slipway login URL|slipway config use NAME"},
		{"a sum", "a.go", `package a; var _ = "see slipway app get " + name + " -o yaml: it " + f("slipway whoami")`, "slipway whoami|slipway app get %v -o yaml"},
		{"a description", "a.go", "package a; type T struct { A int `about:\"as slipway runtime install does\"` }", "slipway runtime install (partial)"},
		{"a flag", "a.go", `package a; var _ = flags.BoolVar(&b, "b", false, "of slipway login")`, "slipway login (partial)"},
		{"help", "a.go", `package a; var _ = C{Long: "as slipway helm\nvalidate does"}`, "slipway helm validate (partial)"},
		{"examples", "a.go", "package a; var _ = C{Example: `  slipway app list -A\n  cat x | slipway lint -f - > out # slipway version`}", "slipway app list -A|slipway lint -f -|slipway version (partial)"},
		{"no command", "a.go", `package a; var _ = "slipway sticky rule" + "kubectl -n slipway get pods"`, ""},
		{"an unknown command", "a.go", `package a; var _ = "run slipway frobnicate now"`, "slipway frobnicate"},
		{"an argument before flags", "a.go", `package a; var _ = "slipway integration git add default --runtime %s adds it"`, "slipway integration git add default --runtime %s"},

		{"a block", "a.md", "text\n\n```sh\nslipway app wait shop \\\n  --health\nA=b sudo slipway explain <url> 2> /dev/null --method 'X Y'\n```\n", "slipway app wait shop --health|slipway explain <url> --method X Y"},
		{"a console", "a.md", "```console\n$ slipway whoami\nslipway login URL\n```\n", "slipway whoami|slipway login URL (partial)"},
		{"code", "a.md", "Use `slipway app\nlist|get` and `app wait` or `make up`, and slipway version.", "slipway app list (partial)|slipway app get (partial)|slipway app wait (partial)"},
		{"an indented block", "a.md", "Run:\n\n    slipway version\n", "slipway version"},
		{"another block", "a.md", "```yaml\n# slipway login URL makes it\n```\n", "slipway login URL (partial)"},

		{"notes", "NOTES.txt", "Next:\n  slipway login {{ .Values.url }}  # first\n", "slipway login {{ .Values.url }}"},

		{"a template", "web/src/a.ts", "// slipway gone\nconst a = `Use slipway runtime logs ${name}.`;", "slipway runtime logs ${name}"},
		{"lines", "web/src/a.json", `{"a": "slipway login URL\nslipway runtime install prod --create-key\n"}`, "slipway login URL|slipway runtime install prod --create-key"},
		{"words", "web/src/a.ts", `const a = ["slipway", "cluster", "add", shown, "--runtime", name, ...more]; const b = ["slipway", other];`, "slipway cluster add ${shown} --runtime ${name} …"},
		{"an element", "web/src/a.tsx", "return <p>\n  Run slipway whoami.\n</p>;", "slipway whoami"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, one := range commandsInFile(root, test.file, func() string { return test.text }) {
				line := one.line()
				if one.partial {
					line += " (partial)"
				}
				got = append(got, line)
			}
			var want []string
			if test.want != "" {
				want = strings.Split(test.want, "|")
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestPrintedParse: a command that does not work as it is printed is reported.
func TestPrintedParse(t *testing.T) {
	clitest.Clean(t)
	for _, test := range []struct {
		line    string
		partial bool
		want    string // empty: it is accepted
	}{
		{"app wait NAME --timeout %s", false, ""},
		{"app wait", true, ""},
		{"app wait", false, "takes the name of one Application"},
		{"app wait a b", true, "takes the name of one Application"},
		{"app frobnicate", true, `unknown command "frobnicate"`},
		{"frobnicate", false, `unknown command "frobnicate"`},
		{"app get a --frobnicate", true, "unknown flag: --frobnicate"},
		{"login URL --ca-file", true, ""},
		{"login URL --ca-file", false, "flag needs an argument"},
		{"audit list --limit MANY", false, ""},
		{"audit list --limit many", false, "invalid argument"},
		{"lint", false, "--filename is missing"},
		{"lint -f x", false, ""},
		{"lint", true, ""},
		{"runtime install … --class x", false, "the help does not list class"},
		{"edge --entryPoints.web.address=:80", false, ""},
		{"edge --entryPoints.web.frobnicate=1", false, "entryPoints.web.frobnicate"},
		{"edge --configFile=absent.yaml", false, ""},
		{"platform backup FILE", false, ""},
		{"platform backup", false, "it has 0 arguments"},
		{"platform backup", true, ""},
		{"platform create-key EMAIL NAME --days N --read", false, ""},
		{"completion bash", false, ""},
	} {
		err := parsePrinted(t, printed{words: strings.Fields(test.line), partial: test.partial})
		if got := errorText(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.line, got, test.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
