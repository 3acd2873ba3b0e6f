package platformcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/roleflags"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
)

// platformTask is a command that works on the database of a platform, whether
// the platform runs or not. Its arguments come first, then its flags and the
// options of the platform in any order.
type platformTask struct {
	use, short, long, example string
	// words is the number of positional arguments, all of them required.
	words int
	// switches are flags without a value.
	switches []string
	values   []string // flags that have a value
	run      func(ctx context.Context, task taskCall) error
}

// taskCall is one run of a task: the parsed arguments, the flags that were
// given, and the state that the task works on.
type taskCall struct {
	place platformPlace
	audit config.AuditLog
	log   *slog.Logger // on standard error
	// signIn is the policy of the options, which need not be that of a running
	// platform.
	signIn identity.SignInPolicy
	words  []string
	given  map[string]bool
	value  map[string]string
	out    io.Writer
}

// platformTasks returns the subcommands of slipway platform. The hidden serve
// is an alias of the command itself.
func platformTasks() []*cobra.Command {
	// words must match the arguments in use; start checks their number.
	tasks := []platformTask{
		{
			use: "backup FILE [options]", short: "Back up the platform to a file", words: 1, run: backupTask,
			long: `Writes a consistent backup of all persistent data to a file that must not exist yet,
also while the platform runs. The database is selected with the options of the
platform. The backup does not contain the key file: keep it elsewhere.`,
			example: "  slipway platform backup platform.backup\n  slipway platform backup platform.backup --database.url=postgres://… --database.secretKeyFile=platform.key",
		},
		{
			use: "restore FILE [options]", short: "Restore a backup into an empty database", words: 1, run: restoreTask,
			long: `Restores a backup into an empty database, which may be of the other type: this is how
a platform moves from SQLite to PostgreSQL. The platform must not run. The key file
of the backed-up platform is required too.`,
			example: "  slipway platform restore platform.backup --state.dir=/var/lib/slipway/platform",
		},
		{
			use: "rotate-keys [options]", short: "Rotate the keys that sign tokens", switches: []string{"revoke"}, run: rotateTask,
			long: `Creates a new key for signing tokens. It is distributed to the runtimes and used after
an hour, without interruption. With --revoke the old keys are removed at once, and
all tokens that they signed become invalid: runtimes renew theirs within a minute.`,
			example: "  slipway platform rotate-keys\n  slipway platform rotate-keys --revoke",
		},
		{
			use: "reset-password EMAIL [options]", short: "Reset a user's password to a one-time password", words: 1, run: resetPasswordTask,
			long: `Sets a one-time password for a user, ends the user's sessions, revokes the API keys
that the user created, and prints the password. Keys of slipway platform create-key
remain. Use it when no admin can sign in any more.`,
			example: "  slipway platform reset-password admin@example.com",
		},
		{
			use: "reset-second-factor EMAIL [options]", short: "Remove the second factors of a user", words: 1, run: resetSecondFactorTask,
			long: `Removes the authenticator app, the passkeys and the recovery codes of a user, and
ends the user's sessions. The next sign-in needs the password only. For when an
admin has lost the second factor and no other admin can reset it.`,
			example: "  slipway platform reset-second-factor admin@example.com",
		},
		createKeyOffer(),
	}
	serve := &cobra.Command{
		Use: "serve [options]", Short: "The same as platform without a command", RunE: run,
		DisableFlagParsing: true, DisableFlagsInUseLine: true, Hidden: true,
	}
	commands := []*cobra.Command{serve}
	for _, task := range tasks {
		commands = append(commands, task.command())
	}
	return commands
}

// command returns the cobra command of a task. Cobra does not parse the flags,
// because the options of the platform are among them.
func (t platformTask) command() *cobra.Command {
	command := &cobra.Command{
		Use: t.use, Short: t.short, Long: t.long, Example: t.example,
		DisableFlagParsing: true, DisableFlagsInUseLine: true,
		RunE: func(command *cobra.Command, args []string) error { return t.start(command, args) },
	}
	command.SetHelpFunc(func(command *cobra.Command, _ []string) {
		fmt.Fprintf(command.OutOrStdout(), "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n\nThe options are those of slipway platform.\n", command.Long, command.UseLine(), command.Example)
	})
	return command
}

// start parses the arguments and the options, and runs the task. Options come
// before the check of the arguments, so that --help works without any. It opens
// no database: the task does, through ask or store.
func (t platformTask) start(command *cobra.Command, args []string) error {
	call := taskCall{given: map[string]bool{}, value: map[string]string{}, out: command.OutOrStdout()}
	// Arguments end at the first flag, because the values of flags look like
	// arguments.
	for len(args) > 0 && len(call.words) < t.words && !strings.HasPrefix(args[0], "-") {
		call.words, args = append(call.words, args[0]), args[1:]
	}
	loaded, err := config.LoadPlatform(roleflags.Sources(t.take(&call, args)))
	if begins, err := roleflags.Begin(command, loaded, err, loaded.Platform); !begins {
		return err
	}
	if len(call.words) != t.words {
		return exit.UsageError{Err: fmt.Errorf("write it as %s", command.UseLine())}
	}
	if call.place, err = platformPlaceOf(loaded.Platform); err != nil {
		return err
	}
	call.signIn, call.audit = signInPolicy(loaded.Platform), loaded.Platform.Audit
	if call.log, err = observe.NewLogger(command.ErrOrStderr(), loaded.Platform.Log.Level, loaded.Platform.Log.Format); err != nil {
		return exit.UsageError{Err: err}
	}
	return t.run(command.Context(), call)
}

// take removes the flags of the task from the arguments and returns the rest,
// which are options of the platform. A misspelled flag ends up there and is
// refused by the loader as an unknown option.
func (t platformTask) take(call *taskCall, args []string) (rest []string) {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		name, value, hasValue := strings.Cut(name, "=")
		switch {
		case isFlag && !hasValue && slices.Contains(t.switches, name):
			call.given[name] = true
		case isFlag && slices.Contains(t.values, name):
			// --name value and --name=value are equivalent. A missing value
			// stays empty, and the task refuses it.
			if !hasValue && i+1 < len(args) {
				i++
				value = args[i]
			}
			call.value[name], call.given[name] = value, true
		default:
			rest = append(rest, args[i])
		}
	}
	return rest
}

// request runs a task in the running platform through its control socket, or
// directly on the database if no platform runs. With PostgreSQL it always opens
// the database, which allows several writers.
func (c taskCall) request(ctx context.Context, request string, response io.Writer, otherwise func(*store.Store) error) error {
	// A running platform is the only writer of its SQLite file, so it runs the
	// task itself. Any error but ErrNotRunning is final: a retry on the file
	// could run the task twice.
	if c.place.sqlite {
		err := server.SendCommand(ctx, c.place.dir, request, response)
		if !errors.Is(err, server.ErrNotRunning) {
			return err
		}
		// Opening would create an empty database at a wrong path.
		if u, _ := url.Parse(c.place.database); u != nil {
			if _, err := os.Stat(u.Path); errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("there is no database at %s: name it with --state.dir or --database.url", u.Path)
			}
		}
	}
	return c.open(ctx, otherwise)
}

// open runs a task directly on the database. Its audit entries are exported as
// those of a running platform are.
func (c taskCall) open(ctx context.Context, do func(*store.Store) error) error {
	logs, err := auditLogs(c.audit, c.log)
	if err != nil {
		return err
	}
	export := server.NewAuditExport(logs)
	defer export.Close(c.log)
	database, err := store.Open(ctx, store.Options{URL: c.place.database, Audited: export.Emit})
	if err != nil {
		return err
	}
	return errors.Join(do(database), database.Close())
}

// operator returns the local user, whose actions are recorded in the audit log.
func operator(database *store.Store) identity.System {
	return identity.System{Store: database, Actor: server.OperatorName(os.Getuid())}
}

// backupTask writes the backup to a temporary file in the same folder and links
// it to its name when it is complete, so that the name never has a partial
// backup. A link, unlike a rename, does not replace a file that appeared
// meanwhile.
func backupTask(ctx context.Context, call taskCall) error {
	name := call.words[0]
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s is there already: choose another name", name)
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part") // mode 0600
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	defer os.Remove(file.Name()) // it has another name then
	err = call.request(ctx, "/backup", file, func(database *store.Store) error { return operator(database).Backup(ctx, file) })
	// The data is on disk before the file gets its name.
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), name); err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	fmt.Fprintf(call.out, "Everything is in %s. Keep the key file %s too, elsewhere.\n", name, call.place.keyFile)
	return nil
}

// restoreTask reads a backup into an empty database. store.Restore verifies the
// backup before it writes, and refuses a database with data.
func restoreTask(ctx context.Context, call taskCall) error {
	// The backup is opened first, so that a wrong name creates no state folder.
	file, err := os.Open(call.words[0])
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	defer file.Close()
	if err := call.place.prepare(); err != nil {
		return err
	}
	if err := store.Restore(ctx, store.Options{URL: call.place.database}, file); err != nil {
		return err
	}
	// The accounts, and so their audit logs, exist since the restore.
	err = call.open(ctx, func(database *store.Store) error {
		return operator(database).Record(ctx, identity.Event{Action: identity.ActionRestore, Target: "platform", Outcome: identity.OutcomeOK, Code: identity.CodeOK})
	})
	if err != nil {
		return fmt.Errorf("everything is restored, but not recorded in the audit log: %w", err)
	}
	fmt.Fprintln(call.out, "Everything is restored. The platform needs the key file of the one that was backed up:", call.place.keyFile)
	return nil
}

// rotateTask creates a new signing key. A running SQLite platform does it
// itself and needs no key file here.
func rotateTask(ctx context.Context, call taskCall) error {
	// The response is discarded: a rotation prints no key.
	revoke := call.given["revoke"]
	err := call.request(ctx, "/keys/rotate?revoke="+strconv.FormatBool(revoke), io.Discard, func(database *store.Store) error {
		// Signing keys are encrypted in the database with the key of this file.
		key, err := readKeyFile(call.place.keyFile)
		if err != nil {
			return err
		}
		signer, err := signing.New(ctx, database, key, time.Now)
		if err != nil {
			return err
		}
		return operator(database).RotateKeys(ctx, signer, revoke)
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(call.out, "There is a new key.")
	return nil
}

// resetPasswordTask sets a one-time password for a user and prints it, for
// platforms where no admin can sign in.
func resetPasswordTask(ctx context.Context, call taskCall) error {
	email := call.words[0]
	if call.signIn.PasswordsDisabled {
		return errors.New(identity.NoPasswordsAdvice)
	}
	var response strings.Builder
	err := call.request(ctx, "/users/reset-password?"+url.Values{"email": {email}}.Encode(), &response, func(database *store.Store) error {
		password, err := operator(database).ResetPassword(ctx, email)
		response.WriteString(password.Reveal())
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(call.out, "The sessions and API keys of the user have ended. Sign in once with this password, and choose another:\n  email:    %s\n  password: %s\n", email, response.String())
	return nil
}

// resetSecondFactorTask removes the second factors of a user.
func resetSecondFactorTask(ctx context.Context, call taskCall) error {
	email := call.words[0]
	err := call.request(ctx, "/users/reset-second-factor?"+url.Values{"email": {email}}.Encode(), io.Discard, func(database *store.Store) error {
		return operator(database).ResetSecondFactor(ctx, email)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(call.out, "%s has no second factor any more, and the sessions have ended.\n", email)
	return nil
}
