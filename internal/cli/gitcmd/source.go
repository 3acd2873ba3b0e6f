// Package gitcmd has the commands for Git at a runtime: its Git Sources
// (git-source), and its integrations with Git providers and the tokens for them
// (integration).
//
// Tokens are sent through the platform to the runtime and kept in its cluster.
// They are read from files, standard input or a terminal, and never printed.
package gitcmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// Source returns the command slipway git-source. Its subcommands go through the
// platform to the runtime, which writes the Shared Configuration Repository.
func Source() *cobra.Command {
	choice := &apiclient.Choice{}
	command := apiclient.GroupCommand("git-source", "Manage Git Sources: repositories with Applications", choice, true)
	command.Long = `Manages the Git Sources of a runtime: repositories whose Applications the runtime
creates and updates. They are written to the Shared Configuration Repository.`
	command.AddCommand(gitSourceListCommand(choice), gitSourceCreateCommand(choice), gitSourceEditCommand(choice), gitSourceDeleteCommand(choice))
	return command
}

// gitSourceListCommand lists the Git Sources with the sync and health status
// that the runtime reports at the time of the request. The list is complete and
// has no pages.
func gitSourceListCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the Git Sources of a runtime", Args: cobra.NoArgs}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, _ []string) error {
		response, err := apiclient.Call(command.Context(), client, client.GitSources(runtime).ListGitSources, &runtimev1.ListGitSourcesRequest{})
		if err != nil {
			return err
		}
		return printer.Show(command, output, response, func(w io.Writer) error {
			return printer.List(w, []string{"NAME", "REPOURL", "PATH", "REVISION", "SYNC", "HEALTH", "MESSAGE"}, response.GetGitSources(), func(one *runtimev1.GitSource) []string {
				return []string{one.GetName(), one.GetRepoUrl(), printer.OrDash(one.GetPath()), printer.OrDash(one.GetRevision()), printer.OrDash(one.GetSync()), printer.OrDash(one.GetHealth()), one.GetMessage()}
			})
		})
	})
	return command
}

// addGitSourceFlags adds one flag per field that create and edit can set. All
// defaults are empty: the runtime fills them in, so that both commands share
// the flags.
func addGitSourceFlags(flags *pflag.FlagSet, source *runtimev1.GitSource) {
	flags.StringVar(&source.RepoUrl, "repo-url", "", "repository with the Applications, over HTTPS or SSH")
	flags.StringVar(&source.Path, "path", "", "directory in the repository (default its root)")
	flags.StringVar(&source.Revision, "revision", "", "branch, tag or commit (default the repository's own)")
	flags.StringVar(&source.Include, "include", "", "glob pattern of files to include (default all)")
	flags.StringVar(&source.Exclude, "exclude", "", "glob pattern of files to exclude")
	flags.StringVar(&source.DestinationNamespace, "dest-namespace", "", "namespace of its Applications (default the runtime's)")
	flags.StringVar(&source.DestinationServer, "dest-server", "", "cluster of its Applications (default the runtime's)")
	flags.StringVar(&source.Project, "project", "", "AppProject (default default)")
}

// gitSourceCreateCommand creates a Git Source. A failed webhook registration is
// a note and not an error, because the runtime polls the repository as well.
func gitSourceCreateCommand(choice *apiclient.Choice) *cobra.Command {
	wanted := &runtimev1.CreateGitSourceRequest{GitSource: &runtimev1.GitSource{}}
	command := &cobra.Command{
		Use: "create NAME --repo-url URL", Short: "Create a Git Source", Args: cobra.ExactArgs(1),
		Example: `  slipway git-source create apps --runtime prod --repo-url https://github.com/acme/apps.git --path prod --register-webhook`,
	}
	addGitSourceFlags(command.Flags(), wanted.GitSource)
	command.Flags().BoolVar(&wanted.CreateRepository, "create-repository", false, "create the repository if it does not exist")
	command.Flags().BoolVar(&wanted.RegisterWebhook, "register-webhook", false, "register a webhook for pushes at the provider, if the runtime's token has the permission")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		// The only required field is checked here, before a request is sent.
		if wanted.GitSource.RepoUrl == "" {
			return exit.UsageError{Err: errors.New("--repo-url is missing")}
		}
		wanted.GitSource.Name = args[0]
		response, err := apiclient.Call(command.Context(), client, client.GitSources(runtime).CreateGitSource, wanted)
		if err != nil {
			return err
		}
		// The note goes to standard error, so that it does not break JSON
		// output.
		if problem := response.GetWebhookProblem(); problem != "" {
			printer.Note(command, "No webhook was registered: %s", problem)
		}
		return printer.Show(command, output, response, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Git Source %s was made in the runtime %s, with commit %s.\n", printer.Printable(args[0]), runtime, printer.Printable(printer.OrDash(printer.ShortRevision(response.GetCommit()))))
			return err
		})
	})
	return command
}

// gitSourceEditCommand changes the fields whose flags are given. The API
// replaces the whole Git Source, so the command reads it first and sends it
// back changed. Two concurrent edits are not detected: the last one wins.
func gitSourceEditCommand(choice *apiclient.Choice) *cobra.Command {
	given := &runtimev1.GitSource{}
	command := &cobra.Command{
		Use: "edit NAME", Short: "Change the repository, path, revision or patterns of a Git Source", Args: cobra.ExactArgs(1),
		Long:    "Changes the settings of the given flags. The name cannot be changed.",
		Example: `  slipway git-source edit apps --runtime prod --revision release`,
	}
	addGitSourceFlags(command.Flags(), given)
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		api := client.GitSources(runtime)
		all, err := apiclient.Call(command.Context(), client, api.ListGitSources, &runtimev1.ListGitSourcesRequest{})
		if err != nil {
			return err
		}
		var wanted *runtimev1.GitSource
		for _, one := range all.GetGitSources() {
			if one.GetName() == args[0] {
				wanted = one
			}
		}
		if wanted == nil {
			return fmt.Errorf("the runtime %s has no Git Source %s: slipway git-source list --runtime %s shows them", runtime, printer.Printable(args[0]), runtime)
		}
		// An edit without any flag is an incomplete command line, not a request
		// to write the same again.
		if !changeGitSource(command.Flags(), wanted, given) {
			return exit.UsageError{Err: errors.New("name what to change: --help lists the flags")}
		}
		response, err := apiclient.Call(command.Context(), client, api.EditGitSource, &runtimev1.EditGitSourceRequest{GitSource: wanted})
		if err != nil {
			return err
		}
		return printer.Show(command, output, response, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Git Source %s was changed, with commit %s.\n", printer.Printable(args[0]), printer.Printable(printer.OrDash(printer.ShortRevision(response.GetCommit()))))
			return err
		})
	})
	return command
}

// changeGitSource copies the fields whose flags were given and reports whether
// there were any. A flag with an empty value counts: it resets the field to its
// default.
func changeGitSource(flags *pflag.FlagSet, source, given *runtimev1.GitSource) bool {
	changed := false
	for name, field := range map[string]struct{ to, from *string }{
		"repo-url": {&source.RepoUrl, &given.RepoUrl}, "path": {&source.Path, &given.Path}, "revision": {&source.Revision, &given.Revision},
		"include": {&source.Include, &given.Include}, "exclude": {&source.Exclude, &given.Exclude},
		"dest-namespace": {&source.DestinationNamespace, &given.DestinationNamespace},
		"dest-server":    {&source.DestinationServer, &given.DestinationServer}, "project": {&source.Project, &given.Project},
	} {
		if flags.Changed(name) {
			*field.to, changed = *field.from, true
		}
	}
	return changed
}

// gitSourceDeleteCommand deletes a Git Source after confirmation. Its
// Applications stay in the cluster, so that a wrong name does not delete
// running workloads. The note names the commit, which can be reverted.
func gitSourceDeleteCommand(choice *apiclient.Choice) *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use: "delete NAME", Short: "Delete a Git Source; its Applications stay in the cluster", Args: cobra.ExactArgs(1),
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		if err := prompt.New(command).Confirm(fmt.Sprintf("Delete the Git Source %s of the runtime %s?", printer.Printable(args[0]), runtime), yes); err != nil {
			return err
		}
		response, err := apiclient.Call(command.Context(), client, client.GitSources(runtime).DeleteGitSource, &runtimev1.DeleteGitSourceRequest{Name: args[0]})
		return printer.Done(command, err, "Git Source %s was deleted, with commit %s. Its Applications stay in the cluster.", args[0], printer.OrDash(printer.ShortRevision(response.GetCommit())))
	})
	return command
}
