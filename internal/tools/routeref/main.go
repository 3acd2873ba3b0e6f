// Routeref writes docs/reference/routes.md: every type and field of a routes
// file with its comment, and an example of every policy. It reads the source of
// package route, so the page says what the code says; `make generate` runs it.
//
// It promises that the page is complete: a field without a name in the file, or
// a policy without an example, is an error. The examples are whole routes files
// of which the page shows the policy; a test reads and validates each of them.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	source := flag.String("route", "internal/route", "folder of package route")
	examples := flag.String("examples", "internal/tools/routeref/examples", "folder with one routes file for each policy")
	out := flag.String("out", "docs/reference/routes.md", "file to write")
	flag.Parse()
	if err := run(*source, *examples, *out); err != nil {
		fmt.Fprintln(os.Stderr, "routeref:", err)
		os.Exit(1)
	}
}

func run(source, examples, out string) error {
	page, err := reference(source, examples)
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(page), 0o644)
}

// reference gives the text of the page.
func reference(source, examples string) (string, error) {
	model, err := readModel(source)
	if err != nil {
		return "", err
	}
	shown, err := readExamples(examples)
	if err != nil {
		return "", err
	}
	return model.page(shown)
}

// readExamples gives the policies of each routes file, by the name of the file.
func readExamples(dir string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	shown := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		excerpt := policiesOf(string(text))
		if excerpt == "" {
			return nil, fmt.Errorf("%s has no policies: give its rule the policy that it is an example of", path)
		}
		shown[strings.TrimSuffix(filepath.Base(path), ".yaml")] = excerpt
	}
	return shown, nil
}

// policiesOf cuts the policies of the first rule out of a routes file: the line
// that says policies, and what is indented below it.
func policiesOf(text string) string {
	const heading = "    policies:\n"
	_, below, found := strings.Cut(text, "\n"+heading)
	if !found {
		return ""
	}
	var out strings.Builder
	out.WriteString(strings.TrimLeft(heading, " "))
	for line := range strings.Lines(below) {
		rest, inside := strings.CutPrefix(line, "      ")
		if !inside {
			break
		}
		out.WriteString("  " + rest)
	}
	return out.String()
}
