package cli

import (
	"cmp"
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/internal/cli/roleflags"
	"slipway.dev/slipway/internal/config"
)

// generatedNote starts each page of the reference. It is an HTML comment, so
// that the page renders without it.
const generatedNote = "<!-- Written by `make generate`. Change the descriptions in the source, not this page. -->\n\n"

// edgeExamples shows one configuration in each way that it can be written.
//
//go:embed edge_examples.md
var edgeExamples string

// groupTitles maps the group of an option, which is its path without the last
// element, to the heading in the reference. A group that is missing here gets
// its path as heading, so a new group never breaks generation.
var groupTitles = map[string]string{
	"":                                 "Configuration file",
	"log":                              "Log",
	"admin":                            "Admin server",
	"health":                           "Health server",
	"entryPoints.<name>":               "Entry points",
	"shared":                           "All replicas",
	"providers":                        "All providers",
	"providers.file":                   "File provider",
	"providers.kubernetesIngress":      "Kubernetes Ingress provider",
	"providers.kubernetesIngressNGINX": "ingress-nginx provider",
	"accessLog":                        "Access log",
	"accessLog.filters":                "Access log: which requests",
	"accessLog.fields":                 "Access log: what of a request",
	"tracing":                          "Tracing",
	"tracing.otlp":                     "Tracing: the collector",
	"lastGood":                         "Last good routes",
	"kubernetes":                       "Kubernetes API server",
	"applications":                     "Applications",
	"sources":                          "Repositories and charts",
	"render":                           "Rendering",
	"webhooks":                         "Webhooks",
	"leaderElection":                   "Leader election",
	"server":                           "Server",
	"tls":                              "Certificate",
	"state":                            "State",
	"database":                         "Database",
	"tunnel":                           "Tunnels",
	"peer":                             "Replicas",
	"runtimes":                         "Runtimes behind an Ingress or a mesh",
	"firstStart":                       "First start",
	"audit":                            "Audit log",
	"keys":                             "API keys",
	"identity":                         "Sign-in",
	"oidc":                             "Identity provider",
	"outbound":                         "Addresses that are connected to",
}

// agentExamples is edgeExamples for the agent.
//
//go:embed agent_examples.md
var agentExamples string

// platformExamples is edgeExamples for the platform.
//
//go:embed platform_examples.md
var platformExamples string

// roleReference returns the page with the options of a role. It starts a new
// table where the group changes and relies on the options of a group being
// adjacent: internal/config lists them in the order of the struct.
func roleReference(role, examples string, options []config.Option) string {
	var out declare.Page
	out.WriteString(generatedNote + "# Options of slipway " + role + "\n\n")
	out.WriteString(strings.Join(roleflags.Wrap(roleflags.LayersText, roleflags.MaxWidth), "\n") + "\n\n" + examples)
	group, first := "", true
	for _, option := range options {
		if first || option.Group() != group {
			group, first = option.Group(), false
			title := cmp.Or(groupTitles[group], group)
			out.Printf("\n## %s\n\n", title)
			out.Table("Option", "Environment", "Default", "Description")
		}
		out.Row(declare.Code(option.Name), declare.Code(option.Environment), declare.Code(option.Default), option.Description)
	}
	return out.String()
}

// cliReference returns the page with the commands. Cobra adds the completion
// command only when a command line runs, so it is added here to be on the page.
func cliReference(root *cobra.Command) string {
	root.InitDefaultCompletionCmd()
	var out declare.Page
	out.WriteString(generatedNote + "# Commands\n\n" + root.Long + "\n\n")
	out.WriteString("The exit code is 0 when a command succeeded, 1 when it failed, and 2 when the command line or the\n" +
		"configuration was wrong. The first SIGINT or SIGTERM stops a command in good order; a second one stops it at once.\n\n")
	out.WriteString("Flags of every command:\n\n")
	flagTable(&out, root.PersistentFlags())
	for _, command := range root.Commands() {
		if command.IsAvailableCommand() && command.Name() != "help" {
			writeCommand(&out, command)
		}
	}
	return out.String()
}

// writeCommand writes the section of a command and, recursively, of its
// subcommands. A command without a long description gets the short one.
func writeCommand(out *declare.Page, command *cobra.Command) {
	text := cmp.Or(command.Long, command.Short+".")
	out.Printf("\n## %s\n\n%s\n\n```sh\n%s\n```\n", command.CommandPath(), strings.TrimSpace(text), command.UseLine())
	if command.Example != "" {
		out.Printf("\nExamples:\n\n```sh\n%s\n```\n", unindent(command.Example))
	}
	if command.DisableFlagParsing {
		// A subcommand of a role takes the options of the role, so the link
		// goes to the page of the outermost command that parses its own
		// options.
		role := command
		for role.HasParent() && role.Parent().DisableFlagParsing {
			role = role.Parent()
		}
		out.Printf("\nIts options are on [their own page](%s.md).\n", role.Name())
		for _, child := range command.Commands() {
			writeCommand(out, child)
		}
		return
	}
	if command.HasAvailableLocalFlags() && command.LocalNonPersistentFlags().HasAvailableFlags() {
		out.WriteString("\n")
		flagTable(out, command.LocalNonPersistentFlags())
	}
	if command.PersistentFlags().HasAvailableFlags() {
		out.WriteString("\nFlags of all its commands:\n\n")
		flagTable(out, command.PersistentFlags())
	}
	if command.HasAvailableSubCommands() {
		out.WriteString("\n")
		for _, child := range command.Commands() {
			out.Printf("- `%s`: %s\n", child.CommandPath(), child.Short)
		}
		if command.Name() != "completion" { // those of shells differ in nothing
			for _, child := range command.Commands() {
				writeCommand(out, child)
			}
		}
	}
}

// flagTable writes a table of flags with their defaults.
func flagTable(out *declare.Page, flags *pflag.FlagSet) {
	out.Table("Flag", "Default", "Description")
	flags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "help" {
			out.Row(declare.Code("--"+flag.Name), declare.Code(flag.DefValue), flag.Usage)
		}
	})
}

// unindent removes the two blanks that each line of an example has in the help
// of cobra; in a code block they would be copied along.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
