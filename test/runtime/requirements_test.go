package runtime

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// update adds tests that name a requirement to the page:
//
//	go test ./test/runtime -run TestRequirements -update
var update = flag.Bool("update", false, "add tests that name a requirement to docs/requirements.md")

const (
	// root is the top of the repository.
	root             = "../.."
	requirementsPage = root + "/docs/requirements.md"
	lastRequirement  = 132
)

// row is a requirement on the page.
type row struct {
	number                int
	asked, meaning, state string
	see                   string // the command by which a stranger sees it
	tests                 []string
}

// TestRequirements: every requirement has a row with a state; what is done names
// a command of the program and tests that exist, and every test that names a
// requirement is in its row.
func TestRequirements(t *testing.T) {
	text := must.Get(os.ReadFile(requirementsPage))(t)
	commands := readCommands(t)
	rows, declared, named := readRows(t, string(text)), map[string]bool{}, map[int][]string{}
	readTests(t, declared, named)
	if *update {
		text = []byte(updated(string(text), rows, declared, named))
		must.Do(t, os.WriteFile(requirementsPage, text, 0o644))
		rows = readRows(t, string(text))
	}
	for number := 1; number <= lastRequirement; number++ {
		found, there := rows[number]
		if !there {
			t.Errorf("R%d has no row", number)
			continue
		}
		for _, problem := range found.problems(declared, named[number], commands) {
			t.Errorf("R%d: %s", number, problem)
		}
	}
	for number, tests := range named {
		if number < 1 || number > lastRequirement {
			t.Errorf("%v name R%d, which does not exist", tests, number)
		}
	}
}

// problems are what is wrong with a row.
func (r row) problems(declared map[string]bool, named []string, commands commandList) (problems []string) {
	state, why, _ := strings.Cut(r.state, ":")
	if r.see != "" {
		if problem := commands.problem(r.see); problem != "" {
			problems = append(problems, problem)
		}
	}
	switch {
	case r.asked == "" || r.meaning == "":
		problems = append(problems, "it does not say what is asked, or what it means here")
	case state == "done" && len(r.tests) == 0:
		problems = append(problems, "it is done, and no test shows it")
	case state == "done" && r.see == "":
		problems = append(problems, "it is done, and no command shows it")
	case (state == "open" || state == "not planned") && strings.TrimSpace(why) == "":
		problems = append(problems, fmt.Sprintf("its state %q has no reason", r.state))
	case state != "done" && state != "open" && state != "not planned":
		problems = append(problems, fmt.Sprintf("its state is %q: write done, open: why, or not planned: why", r.state))
	}
	for _, test := range r.tests {
		if !declared[test] {
			problems = append(problems, fmt.Sprintf("there is no test %s", test))
		}
	}
	for _, test := range named {
		if !slices.Contains(r.tests, test) {
			problems = append(problems, fmt.Sprintf("%s names it and is not in the row: run go test ./test/runtime -run TestRequirements -update", test))
		}
	}
	return problems
}

// readRows reads the tables of the page.
func readRows(t *testing.T, text string) map[int]row {
	t.Helper()
	rows := map[int]row{}
	for line := range strings.Lines(text) {
		found, is := parseRow(line)
		if !is {
			continue
		}
		if _, twice := rows[found.number]; twice {
			t.Errorf("R%d has two rows", found.number)
		}
		rows[found.number] = found
	}
	return rows
}

// parseRow reads | R1 | asked | meaning | state | `command` | `a.TestA` `b.TestB` |.
func parseRow(line string) (found row, is bool) {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
	number, isNumber := strings.CutPrefix(strings.TrimSpace(cells[0]), "R")
	if !strings.HasPrefix(line, "| R") || !isNumber || len(cells) != 6 {
		return row{}, false
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return row{}, false
	}
	found = row{number: n, asked: strings.TrimSpace(cells[1]), meaning: strings.TrimSpace(cells[2]), state: strings.TrimSpace(cells[3])}
	found.see = strings.Trim(strings.TrimSpace(cells[4]), "`")
	for _, word := range strings.Fields(cells[5]) {
		found.tests = append(found.tests, strings.Trim(word, "`"))
	}
	return found, true
}

// updated is the page with the tests that name a requirement, and without those
// that do not exist.
func updated(text string, rows map[int]row, declared map[string]bool, named map[int][]string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		found, is := parseRow(line)
		if !is {
			out.WriteString(line)
			continue
		}
		tests := slices.DeleteFunc(append(slices.Clone(rows[found.number].tests), named[found.number]...), func(test string) bool { return !declared[test] })
		slices.Sort(tests)
		see, cell := "", ""
		if found.see != "" {
			see = " `" + found.see + "`"
		}
		for _, test := range slices.Compact(tests) {
			cell += " `" + test + "`"
		}
		fmt.Fprintf(&out, "| R%d | %s | %s | %s |%s |%s |\n", found.number, found.asked, found.meaning, found.state, see, cell)
	}
	return out.String()
}

var (
	requirementRange = regexp.MustCompile(`\bR(\d+)(?: to |–|-)R?(\d+)\b`)
	requirementName  = regexp.MustCompile(`\bR(\d+)\b`)
	testName         = regexp.MustCompile(`^(Test|test|Fuzz|Benchmark|require)[A-Z]`)
)

// readTests finds every test of the repository, as folder.Name, and which
// requirements its comment names.
func readTests(t *testing.T, declared map[string]bool, named map[int][]string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata" || entry.Name() == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if !is || !testName.MatchString(function.Name.Name) {
				continue
			}
			name := filepath.ToSlash(folder) + "." + function.Name.Name
			declared[name] = true
			for _, number := range requirements(function.Doc.Text()) {
				named[number] = append(named[number], name)
			}
		}
		return nil
	})
	if err != nil || len(declared) < 500 {
		t.Fatalf("%d tests were found: %v", len(declared), err)
	}
	readScripts(t, named)
}

// readScripts finds the requirements that the scripts of test/documents name, which
// one test follows.
func readScripts(t *testing.T, named map[int][]string) {
	t.Helper()
	const follower = "test/documents.TestDocuments"
	text := ""
	for _, pattern := range []string{"*.md", "included/*.md"} {
		for _, file := range must.Get(filepath.Glob(filepath.Join(root, "test/documents/testdata", pattern)))(t) {
			text += string(must.Get(os.ReadFile(file))(t))
		}
	}
	numbers := requirements(text)
	if len(numbers) < 50 {
		t.Errorf("the scripts name %v only", numbers)
	}
	for _, number := range numbers {
		named[number] = append(named[number], follower)
	}
}

// requirements are the numbers that a comment names: R1, and R1 to R3.
func requirements(comment string) []int {
	comment = strings.ReplaceAll(comment, "\n", " ")
	all := map[int]bool{}
	for _, match := range requirementRange.FindAllStringSubmatch(comment, -1) {
		first, _ := strconv.Atoi(match[1])
		last, _ := strconv.Atoi(match[2])
		for number := first; number <= min(last, first+lastRequirement); number++ {
			all[number] = true
		}
	}
	for _, match := range requirementName.FindAllStringSubmatch(comment, -1) {
		number, _ := strconv.Atoi(match[1])
		all[number] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// TestRequirementsOfAComment: the ways in which a comment names requirements.
func TestRequirementsOfAComment(t *testing.T) {
	for comment, want := range map[string]string{
		"R1: this.":                        "[1]",
		"TestX: R50 to\nR53, R123: modes.": "[50 51 52 53 123]",
		"A runtime. (R9–R11)":              "[9 10 11]",
		"R2D2 and ER4 are none.":           "[]",
	} {
		if got := fmt.Sprint(requirements(comment)); got != want {
			t.Errorf("%q names %s, not %s", comment, got, want)
		}
	}
}

// TestRows: what a row can have wrong.
func TestRows(t *testing.T) {
	declared := map[string]bool{"a.TestA": true}
	commands := commandList{"slipway": {"--quiet": true}, "slipway app": {"--direct": true}, "slipway app get": {"--output": true}, "make up": {}}
	for line, want := range map[string]string{
		"| R1 | asked | meaning | done | `make up` | `a.TestA` |":                                        "[]",
		"| R1 | asked | meaning | done | `slipway app get shop --direct --output=json -q` | `a.TestA` |": "[]",
		"| R1 | asked | meaning | done | `make up` | |":                                                  "[it is done, and no test shows it]",
		"| R1 | asked | meaning | done | | `a.TestA` |":                                                  "[it is done, and no command shows it]",
		"| R1 | asked | meaning | done | `make up` | `a.TestB` |":                                        "[there is no test a.TestB a.TestA names it and is not in the row: run go test ./test/runtime -run TestRequirements -update]",
		"| R1 | asked | meaning | open: console | | `a.TestA` |":                                         "[]",
		"| R1 | asked | meaning | not planned | | `a.TestA` |":                                           `[its state "not planned" has no reason]`,
		"| R1 | asked | meaning | soon | | `a.TestA` |":                                                  `[its state is "soon": write done, open: why, or not planned: why]`,
		"| R1 | asked | meaning | open: no | `make down` | `a.TestA` |":                                  "[make down is no target of the Makefile]",
		"| R1 | asked | meaning | open: no | `kubectl get pods` | `a.TestA` |":                           "[kubectl get pods is no command of the program]",
		"| R1 | asked | meaning | open: no | `slipway app gte shop` | `a.TestA` |":                       "[slipway app gte shop is no command of the program]",
		"| R1 | asked | meaning | open: no | `slipway app get shop --put json` | `a.TestA` |":            "[slipway app get has no flag --put]",
	} {
		found, is := parseRow(line)
		named := []string{"a.TestA"}
		if len(found.tests) == 0 {
			named = nil
		}
		if got := fmt.Sprint(found.problems(declared, named, commands)); !is || got != want {
			t.Errorf("%s: %s, not %s", line, got, want)
		}
	}
}
