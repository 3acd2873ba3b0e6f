package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// TestPrintedCommands: every command that a text of the repository shows is one
// that the program accepts: the command, its flags and the number of its
// arguments.
func TestPrintedCommands(t *testing.T) {
	clitest.Clean(t)
	found := printedCommands(t)
	different := map[string]bool{}
	for _, one := range found {
		different[one.line()] = true
		if err := parsePrinted(t, one); err != nil {
			t.Errorf("%s: %s: %v", one.place, one.line(), err)
		}
	}
	t.Logf("%d commands are shown, %d different ones", len(found), len(different))
	// The sources are found: a wrong path must not make the test pass.
	for _, source := range []string{"docs/", "internal/", "charts/", "web/src/", "README.md"} {
		if !slices.ContainsFunc(found, func(one printed) bool { return strings.HasPrefix(one.place, source) }) {
			t.Errorf("no command was found in %s", source)
		}
	}
}

// notCommands are texts in Go code that begin with the name of the program and
// are no commands: purposes of keys and hashes, and names in certificates.
func notCommands() []string {
	return []string{
		"slipway csrf", "slipway device\n", "slipway edge %v", "slipway first account\n", "slipway git key id:", "slipway key %v",
		"slipway passkey\n", "slipway platform %s: ", "slipway recovery code\n", "slipway shared tls ", "slipway sign-in\n", "slipway sticky ", "slipway test",
		"slipway tls session ticket ",
	}
}

// parsePrinted parses a command as the program does, and runs nothing. What
// stands in a placeholder is unknown: a flag gets a value of its type.
func parsePrinted(t *testing.T, one printed) error {
	t.Helper()
	if slices.Contains(one.words, "…") {
		one.words = slices.DeleteFunc(slices.Clone(one.words), func(word string) bool { return word == "…" })
		one.partial = true
	}
	root := cli.Tree()
	command, words, err := root.Find(one.words)
	if err != nil {
		return err
	}
	if command.DisableFlagParsing {
		return parseRole(t, command, one, words)
	}
	command.InitDefaultHelpFlag()
	if err := command.ParseFlags(samples(command, words, one.partial)); err != nil {
		return err
	}
	hidden := []string{}
	command.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Hidden {
			hidden = append(hidden, flag.Name)
		}
	})
	if len(hidden) > 0 {
		return fmt.Errorf("the help does not list %s: show the spelling that it lists", strings.Join(hidden, ", "))
	}
	args := command.Flags().Args()
	err = command.ValidateArgs(args)
	for range 3 {
		if err != nil && one.partial {
			args = append(args, "x")
			err = command.ValidateArgs(args)
		}
	}
	if one.partial {
		return err
	}
	return errors.Join(err, missingFlags(command), command.ValidateFlagGroups())
}

// missingFlags reports flags that the usage has outside of brackets, and that
// the command line does not set.
func missingFlags(command *cobra.Command) error {
	for _, word := range strings.Fields(command.Use) {
		name, isFlag := strings.CutPrefix(word, "--")
		if word == "-f" {
			name, isFlag = "filename", true
		}
		if isFlag && !command.Flags().Changed(name) {
			return fmt.Errorf("--%s is missing: write it as %s", name, command.UseLine())
		}
	}
	return nil
}

// samples replaces placeholders by values that their flags accept. A
// description may name a flag without its value.
func samples(command *cobra.Command, words []string, partial bool) (filled []string) {
	types := map[string]string{}
	command.LocalFlags() // merges those of the parents
	command.Flags().VisitAll(func(flag *pflag.Flag) { types["--"+flag.Name] = flag.Value.Type() })
	for i, word := range words {
		name, value, assigned := strings.Cut(word, "=")
		switch {
		case assigned && types[name] != "" && placeholder.MatchString(value):
			word = name + "=" + sampleOf(types[name])
		case i > 0 && placeholder.MatchString(word) && types[words[i-1]] != "" && types[words[i-1]] != "bool":
			word = sampleOf(types[words[i-1]])
		}
		filled = append(filled, word)
	}
	if last := len(words) - 1; last >= 0 && partial && takesValue(command, words[last]) && strings.HasPrefix(words[last], "-") {
		filled = append(filled, sampleOf(types[words[last]]))
	}
	return filled
}

// sampleOf returns a value of a type of flags.
func sampleOf(kind string) string {
	switch kind {
	case "bool":
		return "true"
	case "duration":
		return "1s"
	case "string", "stringSlice", "stringArray":
		return "x"
	case "stringToString":
		return "x=x"
	default:
		return "1" // the numbers
	}
}

var (
	configFile = regexp.MustCompile(`(?i)^--configFile(=|$)`)
	// refusedWord is in the errors of roles about options that do not exist.
	refusedWord = regexp.MustCompile(`unknown option|unexpected word`)
	operand     = regexp.MustCompile(`\b[A-Z]+\b`)
)

// parseRole has a role check its options: it prints them instead of running.
// The file of options is the reader's.
func parseRole(t *testing.T, command *cobra.Command, one printed, words []string) error {
	t.Helper()
	words = slices.DeleteFunc(slices.Clone(words), configFile.MatchString)
	for i, word := range words {
		words[i] = placeholder.ReplaceAllString(word, "x")
	}
	operands := slices.IndexFunc(append(words, "--"), func(word string) bool { return strings.HasPrefix(word, "-") })
	usage, _, _ := strings.Cut(command.Use, "[") // what follows may be left out
	if want := len(operand.FindAllString(usage, -1)); operands != want && !one.partial {
		return fmt.Errorf("it has %d arguments: write it as %s", operands, command.UseLine())
	}
	var stdout, stderr bytes.Buffer
	line := append(strings.Fields(command.CommandPath())[1:], words...)
	code := cli.Execute(t.Context(), append(line, "--print-config"), &stdout, &stderr)
	// A description may leave out options that others need.
	if code == 0 || one.partial && !refusedWord.MatchString(stderr.String()) {
		return nil
	}
	return errors.New(strings.TrimSpace(stderr.String()))
}

// makeTarget matches a target where a text calls make.
var makeTarget = regexp.MustCompile("(?:^|[`\\n;]|&& |sudo )make ([a-z][a-z0-9-]*)")

// TestMakeTargets: every target of make that a page names is there.
func TestMakeTargets(t *testing.T) {
	rules := string(must.Get(os.ReadFile(repository + "/Makefile"))(t))
	count := 0
	for name, text := range pages(t) {
		for _, part := range pageParts(text) {
			if part.fenced && part.language != "sh" && part.language != "console" {
				continue
			}
			for _, found := range makeTarget.FindAllStringSubmatch(part.text, -1) {
				count++
				if !strings.Contains(rules, "\n"+found[1]+":") {
					t.Errorf("%s:%d: make %s: there is no such target", name, part.line, found[1])
				}
			}
		}
	}
	t.Logf("%d targets are named", count)
	if count < 20 {
		t.Error("the pages were not read")
	}
}
