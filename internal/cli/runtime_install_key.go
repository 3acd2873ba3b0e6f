package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// installKeyLife is how long a key that is made for an installation is good.
const installKeyLife = 24 * time.Hour

// createInstallKey makes a key that registers runtimes and can do nothing else.
func (c *platformClient) createInstallKey(ctx context.Context, name string) (*platformv1.CreateKeyResponse, error) {
	return ask(ctx, c, c.keys().CreateKey, &platformv1.CreateKeyRequest{
		Name: "runtime " + name, Scopes: []platformv1.Scope{platformv1.Scope_SCOPE_RUNTIME_REGISTER}, Lifetime: durationpb.New(installKeyLife),
	})
}

// prepareKeyFile makes the key, or checks the one that is there.
func (g *installFlags) prepareKeyFile(command *cobra.Command, client *platformClient, name string) error {
	if !g.createKey {
		if _, err := os.Stat(g.keyFile); err != nil {
			return usageError{fmt.Errorf("there is no API key in %s: name its file with --key-file, or make one with --create-key", g.keyFile)}
		}
		key, err := readSecretFile(command, g.keyFile, "the API key")
		if err != nil {
			return err
		}
		return checkInstallKey(command, client, key)
	}
	if _, err := os.Lstat(g.keyFile); err == nil {
		return usageError{fmt.Errorf("%s is there already: name another with --key-file, or use it without --create-key", g.keyFile)}
	}
	answer, err := client.createInstallKey(command.Context(), name)
	if err != nil {
		return err
	}
	err = writePrivate(g.keyFile, func(w io.Writer) error {
		_, err := io.WriteString(w, answer.GetSecret())
		return err
	})
	if err != nil {
		return errors.Join(err, client.revoke(command.Context(), answer.GetKey().GetId()))
	}
	note(command, "A key for registering runtimes is in %s. It is good until %s; delete the file after the installation.",
		g.keyFile, shownExpiry(answer.GetKey().GetExpiresAt()))
	return nil
}

// checkInstallKey refuses a key that cannot register runtimes of this account.
func checkInstallKey(command *cobra.Command, client *platformClient, key secret.Text) error {
	mine, err := ask(command.Context(), client, client.auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return err
	}
	as := client.platformContext
	as.Key = key
	other, err := newPlatformClient(as)
	if err != nil {
		return err
	}
	defer other.close()
	me, err := ask(command.Context(), other, other.auth().Me, &platformv1.MeRequest{})
	if err != nil {
		return fmt.Errorf("the key in the key file: %w", err)
	}
	switch {
	case me.GetAccount().GetId() != mine.GetAccount().GetId():
		return fmt.Errorf("the key in the key file is of the account %s: take one of yours", printable(me.GetAccount().GetName()))
	case me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN:
		return fmt.Errorf("the key in the key file is of %s, who is no admin: only admins register runtimes", printable(me.GetUser().GetEmail()))
	}
	return nil
}

// secretThere reads a Secret of the namespace.
func (o *operation) secretThere(name, key string) (secret.Text, error) {
	return (&validate.Live{Cluster: o.cluster}).Secret(o.command.Context(), o.given.namespace, name, key)
}

// shellWord is a text as one word of a shell.
func shellWord(text string) string { return handover.ShellWord(text) }
