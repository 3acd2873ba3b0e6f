package appset_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// exampleBlock matches a block of a page, and isExample whether it shows a set.
var (
	exampleBlock = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	isExample    = regexp.MustCompile(`(?m)^\s*(kind: ApplicationSet|generators:|strategy:|templatePatch:)\s*$`)
)

// examplesOf returns the examples of the pages of Argo CD's module, as testdata/upstream/pages.txt
// names them.
func examplesOf(t *testing.T) []string {
	t.Helper()
	module := strings.TrimSpace(string(must.Get(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v3").Output())(t)))
	var examples []string
	for _, page := range must.Get(filepath.Glob(module + "/docs/operator-manual/applicationset/*.md"))(t) {
		count := 0
		for _, block := range exampleBlock.FindAllString(string(must.Get(os.ReadFile(page))(t)), -1) {
			if isExample.MatchString(block) {
				count++
				examples = append(examples, filepath.Base(page)+" "+strconv.Itoa(count))
			}
		}
	}
	return examples
}

// TestPages: each example of Argo CD's pages has a set in the corpus, or a reason. It
// fails when another version of the module has other examples.
func TestPages(t *testing.T) {
	var sets, listed []string
	for _, one := range readCases(t) {
		sets = append(sets, one.name)
	}
	for line := range strings.Lines(string(must.Get(os.ReadFile(upstreamFolder + "/pages.txt"))(t))) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 3 {
			t.Errorf("%q names no set: write one, or a dash and the reason", line)
			continue
		}
		listed = append(listed, words[0]+" "+words[1])
		for _, set := range words[2:] {
			if words[2] != "-" && !slices.Contains(sets, set) {
				t.Errorf("%s %s: there is no set %s", words[0], words[1], set)
			}
		}
	}
	examples := examplesOf(t)
	if len(examples) == 0 {
		t.Fatal("the module of Argo CD has no examples")
	}
	for _, one := range examples {
		if !slices.Contains(listed, one) {
			t.Errorf("the example %s has no line: add one, and a set if its form is new", one)
		}
	}
	for _, one := range listed {
		if !slices.Contains(examples, one) {
			t.Errorf("there is no example %s: remove its line", one)
		}
	}
}
