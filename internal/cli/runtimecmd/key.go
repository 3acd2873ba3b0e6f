package runtimecmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// prepareKeyFile makes the key, or checks the one that is there.
func (g *installFlags) prepareKeyFile(command *cobra.Command, client *apiclient.Client, name string) error {
	if !g.createKey {
		if _, err := os.Stat(g.keyFile); err != nil {
			return exit.UsageError{Err: fmt.Errorf("there is no API key in %s: name its file with --key-file, or make one with --create-key", g.keyFile)}
		}
		key, err := prompt.ReadSecret(command, g.keyFile, "the API key")
		if err != nil {
			return err
		}
		return checkInstallKey(command, client, key)
	}
	if _, err := os.Lstat(g.keyFile); err == nil {
		return exit.UsageError{Err: fmt.Errorf("%s is there already: name another with --key-file, or use it without --create-key", g.keyFile)}
	}
	answer, err := client.CreateInstallKey(command.Context(), name)
	if err != nil {
		return err
	}
	err = files.WritePrivate(g.keyFile, func(w io.Writer) error {
		_, err := io.WriteString(w, answer.GetSecret())
		return err
	})
	if err != nil {
		return errors.Join(err, client.RevokeKey(command.Context(), answer.GetKey().GetId()))
	}
	printer.Note(command, "A key for registering runtimes is in %s. It is good until %s; delete the file after the installation.",
		g.keyFile, printer.Expiry(answer.GetKey().GetExpiresAt()))
	return nil
}

// checkInstallKey refuses a key that cannot register runtimes of this account.
func checkInstallKey(command *cobra.Command, client *apiclient.Client, key secret.Text) error {
	mine, err := apiclient.Call(command.Context(), client, client.Auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return err
	}
	as := client.Context
	as.Key = key
	other, err := apiclient.New(as)
	if err != nil {
		return err
	}
	defer other.Close()
	me, err := apiclient.Call(command.Context(), other, other.Auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return fmt.Errorf("the key in the key file: %w", err)
	}
	switch {
	case me.GetAccount().GetId() != mine.GetAccount().GetId():
		return fmt.Errorf("the key in the key file is of the account %s: take one of yours", printer.Printable(me.GetAccount().GetName()))
	case me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN:
		return fmt.Errorf("the key in the key file is of %s, who is no admin: only admins register runtimes", printer.Printable(me.GetUser().GetEmail()))
	}
	return nil
}

// secretThere reads a Secret of the namespace.
func (o *operation) secretThere(name, key string) (secret.Text, error) {
	return (&validate.Live{Cluster: o.cluster}).Secret(o.command.Context(), o.given.namespace, name, key)
}

// shellWord is a text as one word of a shell.
func shellWord(text string) string { return handover.ShellWord(text) }
