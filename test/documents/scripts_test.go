package documents

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// scriptFolder has the scripts, and includedFolder the sections that several share.
const (
	scriptFolder   = "testdata"
	includedFolder = "testdata/included"
)

// section is a part of a script with the name of a section of the documents.
type section struct {
	title string
	// given are the states that the section takes for granted: see givens.
	given   []string
	actions []action
}

// action is a command line and what must be seen when it has ended.
type action struct {
	text string
	// exit is the expected exit code. With until the command is repeated until
	// everything is as expected.
	exit  int
	until bool
	// typed is the input at the keyboard.
	typed        string
	seen, unseen []string
}

// shortScripts are those that are followed when not all are asked for.
func shortScripts() []string { return []string{"tunnel.md", "ingress-traefik.md", "mesh-istio.md"} }

// TestDocuments follows the documents of a runtime, section by section, in the three
// access modes and with the objects of the six controllers. All of them take
// minutes: DOCUMENTS=all has them, as make documents does.
func TestDocuments(t *testing.T) {
	scripts := readScripts(t)
	names := shortScripts()
	if os.Getenv("DOCUMENTS") == "all" {
		names = slices.Sorted(maps.Keys(scripts))
	}
	w := newWorld(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) { w.play(t, scripts[name]) })
	}
}

// TestScripts: every script can be read, and those of all modes and controllers are
// there.
func TestScripts(t *testing.T) {
	scripts := readScripts(t)
	for _, name := range append(shortScripts(), "ingress-ambassador.md", "ingress-alb.md", "ingress-nginx-enterprise.md", "ingress-nginx-community.md") {
		if len(scripts[name]) < 4 {
			t.Errorf("%s has %d sections", name, len(scripts[name]))
		}
	}
}

// TestBlocks: what a script may have, and what it may not.
func TestBlocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.md")
	for text, want := range map[string]string{
		"```sh\nls\n```\n\n```seen\na\nb\n```\n":       "{ls 0 false  [a b] []}",
		"```sh exit 2\nls\n```\n\n```unseen\na\n```\n": "{ls 2 false  [] [a]}",
		"```sh until\nls\n```\n\n```typed\ny\n```\n":   "{ls 0 true y\n [] []}",
		"```sh exit x\nls\n```\n":                      "invalid syntax",
		"```sh maybe\nls\n```\n":                       "sh maybe",
		"```seen\na\n```\n":                            "without a command",
		"```sh\nls\n```\n\n```yaml\na: b\n```\n":       `no kind of block "yaml"`,
		"```given\na pony\n```\n":                      `no state "a pony"`,
		"```include nothing.md\n```\n":                 "no such file",
	} {
		writeFile(t, file, "# Title\n\n## Section\n\n"+text)
		sections, err := sectionsOf(file)
		got := fmt.Sprint(err)
		if err == nil && len(sections) == 1 && sections[0].title == "Section" {
			got = fmt.Sprint(sections[0].actions[0])
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s\ngives %s and not %s", text, got, want)
		}
	}
	one := action{exit: 1, seen: []string{"P1  ok"}, unseen: []string{"P2 error"}}
	for _, tt := range []struct {
		code  int
		shown string
		same  bool
	}{{1, "P1 ok\nP2   ok", true}, {0, "P1 ok", false}, {1, "P1 error", false}, {1, "P1 ok\nP2\terror", false}} {
		if err := one.compare(tt.code, tt.shown); (err == nil) != tt.same {
			t.Errorf("%d with %q: %v", tt.code, tt.shown, err)
		}
	}
}

// readScripts reads all scripts.
func readScripts(t *testing.T) map[string][]section {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(scriptFolder, "*.md")))(t)
	scripts := map[string][]section{}
	for _, file := range files {
		sections, err := sectionsOf(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scripts[filepath.Base(file)] = sections
	}
	return scripts
}

// sectionsOf reads a script. A section that has nothing but an include is replaced
// by the sections of that file.
func sectionsOf(file string) (sections []section, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		one := section{title: title}
		for _, block := range blocksOf(rest) {
			if name, found := strings.CutPrefix(block.language, "include "); found {
				included, err := sectionsOf(filepath.Join(includedFolder, name))
				if err != nil {
					return nil, err
				}
				sections = append(sections, included...)
				continue
			}
			if err := one.add(block); err != nil {
				return nil, fmt.Errorf("%s: %w", title, err)
			}
		}
		if len(one.actions) > 0 {
			sections = append(sections, one)
		}
	}
	return sections, nil
}

// add takes a block: a command, or what belongs to the command before.
func (s *section) add(one block) error {
	kind, argument, _ := strings.Cut(one.language, " ")
	lines := strings.Split(strings.TrimSpace(one.text), "\n")
	if kind == "given" {
		s.given = append(s.given, lines...)
		for _, name := range lines {
			if givens()[name] == nil {
				return fmt.Errorf("there is no state %q", name)
			}
		}
		return nil
	}
	if kind == "sh" {
		added := action{text: one.text, until: argument == "until"}
		if code, found := strings.CutPrefix(argument, "exit "); found {
			number, err := strconv.Atoi(code)
			if err != nil {
				return err
			}
			added.exit, argument = number, ""
		}
		if argument != "" && argument != "until" {
			return fmt.Errorf("sh %s: write exit with a code, or until", argument)
		}
		s.actions = append(s.actions, added)
		return nil
	}
	if len(s.actions) == 0 {
		return fmt.Errorf("a block %q without a command before it", one.language)
	}
	last := &s.actions[len(s.actions)-1]
	switch one.language {
	case "seen":
		last.seen = append(last.seen, lines...)
	case "unseen":
		last.unseen = append(last.unseen, lines...)
	case "typed":
		last.typed += one.text + "\n"
	default:
		return fmt.Errorf("there is no kind of block %q", one.language)
	}
	return nil
}

// play follows a script until a section fails: those after it build on it.
func (w *world) play(t *testing.T, sections []section) {
	t.Helper()
	dir := w.begin(t)
	hasToken(t, w, dir)
	hasCertificate(t, w, dir)
	writeFile(t, filepath.Join(dir, "user.txt"), userToken+"\n")
	writeFile(t, filepath.Join(dir, "ca.pem"), string(w.authority.Cert))
	chart := must.Get(filepath.Abs("../../charts/gitops-runtime"))(t)
	w.variables = []string{"ACCOUNT=" + w.account(t), "CHART=" + chart, "BALANCER=" + balancerAddress().String()}
	t.Cleanup(func() { w.variables = nil })
	for _, one := range sections {
		for _, name := range one.given {
			givens()[name](t, w, dir) // until the end of the script
		}
		if !t.Run(one.title, func(t *testing.T) {
			for _, each := range one.actions {
				w.act(t, dir, each)
			}
		}) {
			return
		}
	}
}

// act runs a command and looks at what is shown.
func (w *world) act(t *testing.T, dir string, one action) {
	t.Helper()
	look := func(context.Context) error {
		return one.compare(w.shell(t, shellCall{text: one.text, dir: dir, answers: one.typed, quiet: one.until}))
	}
	if one.until {
		programs.Eventually(t, look)
		return
	}
	must.Do(t, look(t.Context()))
}

// compare returns how an exit code and what was shown differ from the expected ones.
func (a action) compare(code int, shown string) error {
	text := programs.Tail(shown)
	if code != a.exit {
		return fmt.Errorf("%s\nended with %d and not %d:\n%s", a.text, code, a.exit, text)
	}
	for _, part := range a.seen {
		if !strings.Contains(squeezed(shown), squeezed(part)) {
			return fmt.Errorf("%s\ndoes not show %q:\n%s", a.text, part, text)
		}
	}
	for _, part := range a.unseen {
		if strings.Contains(squeezed(shown), squeezed(part)) {
			return fmt.Errorf("%s\nshows %q:\n%s", a.text, part, text)
		}
	}
	return nil
}
