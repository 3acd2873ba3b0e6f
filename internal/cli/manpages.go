package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/config"
)

// writeExtras writes what packages install beside the program: completions of
// shells and man pages, below dir. The folders are those below share of a
// prefix, so that an installation copies the tree.
func writeExtras(root *cobra.Command, dir string) error {
	root.InitDefaultCompletionCmd()
	files := map[string]string{}
	for name, write := range map[string]func(*strings.Builder) error{
		"bash-completion/completions/slipway":    func(to *strings.Builder) error { return root.GenBashCompletionV2(to, true) },
		"zsh/site-functions/_slipway":            func(to *strings.Builder) error { return root.GenZshCompletion(to) },
		"fish/vendor_completions.d/slipway.fish": func(to *strings.Builder) error { return root.GenFishCompletion(to, true) },
	} {
		var text strings.Builder
		if err := write(&text); err != nil {
			return err
		}
		files[name] = text.String()
	}
	addManPages(files, root)
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// addManPages adds the page of a command and of those below it.
func addManPages(files map[string]string, command *cobra.Command) {
	if command.Hidden || command.Name() == "help" {
		return
	}
	files["man/man1/"+manName(command)+".1"] = manPage(command)
	if command.Name() == "completion" { // those of shells differ in nothing
		return
	}
	for _, child := range command.Commands() {
		addManPages(files, child)
	}
}

// manName is the name of a command's page: that of git's pages.
func manName(command *cobra.Command) string {
	return strings.ReplaceAll(command.CommandPath(), " ", "-")
}

// manPage returns the page of a command in the macros of man(7).
func manPage(command *cobra.Command) string {
	var page strings.Builder
	name := manName(command)
	// The page has no date: the same program gives the same page.
	fmt.Fprintf(&page, ".TH %s 1 \"\" \"Slipway\" \"Slipway\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)), roff(name), roff(command.Short))
	fmt.Fprintf(&page, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(command.UseLine()))
	for i, paragraph := range strings.Split(strings.TrimSpace(cmp.Or(command.Long, command.Short+".")), "\n\n") {
		if i > 0 {
			page.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, " ") {
			fmt.Fprintf(&page, ".EX\n%s\n.EE\n", roff(paragraph))
			continue
		}
		page.WriteString(roff(paragraph) + "\n")
	}
	writeManOptions(&page, command)
	if command.Example != "" {
		fmt.Fprintf(&page, ".SH EXAMPLES\n.EX\n%s\n.EE\n", roff(unindent(command.Example)))
	}
	if command.HasAvailableSubCommands() {
		page.WriteString(".SH COMMANDS\n")
		for _, child := range command.Commands() {
			if !child.Hidden && child.Name() != "help" {
				fmt.Fprintf(&page, ".TP\n.BR %s (1)\n%s\n", roff(manName(child)), roff(child.Short))
			}
		}
	}
	if command.HasParent() {
		fmt.Fprintf(&page, ".SH SEE ALSO\n.BR %s (1)\n", roff(manName(command.Parent())))
	}
	return page.String()
}

// writeManOptions writes the flags of a command, or the options of a role, which
// parses its own.
func writeManOptions(page *strings.Builder, command *cobra.Command) {
	roles := map[string]func() []config.Option{
		"slipway edge": config.EdgeOptions, "slipway agent": config.AgentOptions, "slipway platform": config.PlatformOptions,
	}
	if options, ok := roles[command.CommandPath()]; ok {
		page.WriteString(".SH OPTIONS\n")
		for _, option := range options() {
			writeManOption(page, option.Name, option.Default, option.Description)
		}
		return
	}
	if command.DisableFlagParsing || !command.HasAvailableFlags() {
		return
	}
	page.WriteString(".SH OPTIONS\n")
	seen := map[string]bool{"help": true}
	for _, flags := range []*pflag.FlagSet{command.NonInheritedFlags(), command.InheritedFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && !seen[flag.Name] {
				seen[flag.Name] = true
				writeManOption(page, flag.Name, flag.DefValue, flag.Usage)
			}
		})
	}
}

// writeManOption writes one option with its default.
func writeManOption(page *strings.Builder, name, standard, about string) {
	fmt.Fprintf(page, ".TP\n\\fB\\-\\-%s\\fR", roff(name))
	if standard != "" && standard != "[]" {
		fmt.Fprintf(page, " (%s)", roff(standard))
	}
	fmt.Fprintf(page, "\n%s\n", roff(about))
}

// roff escapes a text: backslashes, dashes, which would be hyphens that cannot be
// copied, and lines that would be requests.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
