package up

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
)

// example is a code block of a document.
type example struct {
	line     int
	language string
	text     string
}

// examplesOf reads the fenced code blocks of a Markdown text.
func examplesOf(text string) []example {
	var found []example
	var current *example
	for number, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && current == nil:
			current = &example{line: number + 1, language: strings.TrimSpace(fence)}
		case isFence:
			found = append(found, *current)
			current = nil
		case current != nil:
			current.text += line + "\n"
		}
	}
	return found
}

// documents: every example of the page for users is one that the edge takes.
// Manifests are judged by lint; the other YAML blocks are options of the edge.
func documents(t *testing.T) {
	page := read(t, "../../docs/ingress.md")
	manifests, options := 0, 0
	for _, example := range examplesOf(page) {
		switch {
		case example.language != "yaml":
		case strings.Contains(example.text, "apiVersion:"):
			manifests++
			lintExample(t, example)
		default:
			options++
			loadExample(t, example)
		}
	}
	orderExample(t, page)
	if manifests < 8 || options < 2 {
		t.Errorf("only %d manifests and %d examples of options were found", manifests, options)
	}
}

// lintExample fails when the edge would refuse something of an example, or would
// leave it to others. What is not in it may be elsewhere.
func lintExample(t *testing.T, example example) {
	t.Helper()
	command := program(t, "lint", "--filename", "-", "--config-file", everythingAllowed(t))
	command.Stdin = strings.NewReader(example.text)
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), ", 0 of other classes; 0 objects of other kinds") {
		t.Errorf("line %d: %v\n%s", example.line, err, output)
	}
}

// everythingAllowed are options for examples that need one.
func everythingAllowed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edge.yaml")
	text := "entryPoints: {web: {address: ':80'}, websecure: {address: ':443', http: {tls: true}}}\n" +
		"providers: {kubernetesIngress: {allowExternalNameServices: true, allowCrossNamespace: true}}\n"
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// loadExample fails when the edge does not take an example as its options.
func loadExample(t *testing.T, example example) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edge.yaml")
	must.Do(t, os.WriteFile(path, []byte(example.text), 0o600))
	if output, err := program(t, "edge", "--configFile="+path, "--print-config").CombinedOutput(); err != nil {
		t.Errorf("line %d: %v\n%s", example.line, err, output)
	}
}

// orderRow is a row of the table of requests: what is asked for, and the Service
// or the status of the response.
var orderRow = regexp.MustCompile("(?m)^\\| `([a-z.*]+/[a-z/]*)` \\| (?:`([a-z]+)`|404) \\|")

// orderExample explains every request of the table and checks what serves it.
func orderExample(t *testing.T, page string) {
	t.Helper()
	examples := examplesOf(page)
	at := slices.IndexFunc(examples, func(e example) bool { return strings.Contains(e.text, "name: order\n") })
	rows := orderRow.FindAllStringSubmatch(page, -1)
	if at < 0 || len(rows) < 5 {
		t.Fatalf("the example is block %d, and its table has %d rows", at, len(rows))
	}
	objects := examples[at].text
	for _, row := range rows {
		if service := row[2]; service != "" && !strings.Contains(objects, "kind: Service\nmetadata: {name: "+service+",") {
			objects += strings.ReplaceAll(serviceWithPod, "NAME", service)
		}
	}
	for _, row := range rows {
		want := "No rule matches it: 404."
		if row[2] != "" {
			want = "backend shop/" + row[2] + ":80"
		}
		command := program(t, "explain", "http://"+row[1], "--filename", "-")
		command.Stdin = strings.NewReader(objects)
		if output, err := command.CombinedOutput(); err != nil || !strings.Contains(string(output), want) {
			t.Errorf("%s: %v, want %q:\n%s", row[1], err, want, output)
		}
	}
}

// serviceWithPod is a Service with a ready endpoint.
const serviceWithPod = `---
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: NAME-1, namespace: shop, labels: {kubernetes.io/service-name: NAME}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.0.0.1]}]
`

// program is the built binary with arguments, for a user.
func program(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Getenv(binary.Variable), arguments...)
	command.Env = programs.UserEnvironment()
	return command
}
