// Routeref generates docs/reference/routes.md: every type and field of a routes
// file with its comment, and an example of every policy. It reads the source of
// package route, so the page cannot differ from the code. `make generate` runs
// it.
//
// The page is complete: a field without a name in the file, or a policy without
// an example, is an error. The examples are complete routes files of which the
// page shows the policy; a test decodes and validates each of them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/internal/tools/generator"
)

func main() { generator.Main("routeref", generate) }

// generate returns the page by its path in the repository.
func generate(root string) (map[string][]byte, error) {
	page, err := reference(filepath.Join(root, "internal/route"), filepath.Join(root, "internal/tools/routeref/examples"))
	return map[string][]byte{"docs/reference/routes.md": []byte(page)}, err
}

// reference returns the text of the page.
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

// readExamples returns the policies of each routes file in a folder, by the
// file name without its extension, which is the key of the policy.
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

// policiesOf returns the policies of the first rule in a routes file: the line
// "policies:" and the lines that are indented below it. The text is cut and not
// parsed, to keep comments and the order of keys.
func policiesOf(text string) string {
	const heading = "    policies:\n"
	_, below, found := strings.Cut(text, "\n"+heading)
	if !found {
		return ""
	}
	var out strings.Builder
	out.WriteString(strings.TrimLeft(heading, " "))
	for line := range strings.Lines(below) {
		// The example moves to the left margin of the page.
		rest, inside := strings.CutPrefix(line, "      ")
		if !inside {
			break
		}
		out.WriteString("  " + rest)
	}
	return out.String()
}
