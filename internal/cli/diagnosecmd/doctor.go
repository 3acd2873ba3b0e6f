// Package diagnosecmd has the commands that diagnose problems: doctor (this
// machine, the platform, the runtimes and the cluster), preflight (the
// requirements of an installation), lint and explain (Ingresses, as the edge
// reads them).
//
// They change nothing, except preflight --fix after it has shown the changes
// and the user has confirmed them.
package diagnosecmd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// States of a check of doctor.
const (
	// A warning does not change the exit code. A check is skipped if its
	// precondition is missing, such as a chosen platform.
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
	checkSkipped = "skipped"
)

const (
	// soon is the time before the expiry of a certificate, key or Git token at
	// which the check becomes a warning.
	soon = 14 * 24 * time.Hour
	// ownAudit is the number of the user's own audit entries in the archive.
	// Those of other users are left out.
	ownAudit = 100
)

// doctorCheck is one line of the output. Its JSON is part of the archive.
// Message has passed the redactor.
type doctorCheck struct {
	Check   string `json:"check"`
	State   string `json:"state"`
	Message string `json:"message"`
}

// diagnosis collects the findings of doctor: lines for the terminal, and parts
// for the archive. Everything passes the redactor, also error texts, which may
// quote a URL with a password.
type diagnosis struct {
	checks []doctorCheck
	// parts are the files of the archive, by name without extension. They are
	// redacted when the archive is written.
	parts map[string]any
	hide  *redactor
}

// add adds a line. The redactor sees the formatted text, so a secret in any
// argument is removed.
func (e *diagnosis) add(check, state, format string, args ...any) {
	e.checks = append(e.checks, doctorCheck{check, state, e.hide.text(fmt.Sprintf(format, args...))})
}

// keep adds a message to the archive. A message that cannot be encoded is
// replaced by the error: one part must not lose the others.
func (e *diagnosis) keep(name string, message proto.Message) {
	value, err := printer.ProtoValue(message)
	if err != nil {
		value = err.Error()
	}
	e.parts[name] = value
}

// Doctor returns the command slipway doctor. It works without a platform and
// without a cluster: their checks are skipped.
func Doctor() *cobra.Command {
	choice, local := &apiclient.Choice{}, kube.UserChoice{}
	path := ""
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose this machine, the platform, the runtimes and the cluster",
		Long: `Checks the contexts, the platform and its certificate, the runtimes, and the cluster
that kubectl would use, and reports what is wrong. The exit code is 1 when a check
fails. With --output everything that was found goes into an archive without keys,
passwords and tokens: review it before you send it to someone.`,
		Example: `  slipway doctor
  slipway doctor --output doctor.tar.gz`,
		Args: cobra.NoArgs,
	}
	choice.AddFlags(command.Flags())
	command.Flags().StringVar(&path, "output", "", "archive to write, such as doctor.tar.gz")
	kubeflags.Add(command.Flags(), &local)
	command.RunE = func(command *cobra.Command, _ []string) error {
		// Checks never return an error, so there is always something to print.
		found := diagnose(command.Context(), choice, local)
		// Written before the table: a closed pipe on standard output must not
		// lose the archive.
		if path != "" {
			if err := files.WritePrivate(path, found.bundle); err != nil {
				return err
			}
			printer.Note(command, "The findings are in %s. Review the file before you send it to someone.", path)
		}
		if err := printChecks(command.OutOrStdout(), found.checks); err != nil {
			return err
		}
		// Warnings and skipped checks do not count.
		wrong := 0
		for _, check := range found.checks {
			if check.State == checkFailed {
				wrong++
			}
		}
		if wrong > 0 {
			return exit.Status{Code: exit.Failure, Err: fmt.Errorf("%d of %d checks failed", wrong, len(found.checks))}
		}
		return nil
	}
	return command
}

// printChecks prints the lines as a table, in the order of the checks.
func printChecks(w io.Writer, checks []doctorCheck) error {
	return printer.List(w, []string{"CHECK", "STATE", "MESSAGE"}, checks, func(check doctorCheck) []string {
		return []string{check.Check, check.State, check.Message}
	})
}

// diagnose runs all checks in order. Each adds its findings; none ends the run,
// because the rest shows how far a broken part reaches.
func diagnose(ctx context.Context, choice *apiclient.Choice, local kube.UserChoice) *diagnosis {
	e := &diagnosis{parts: map[string]any{}, hide: newRedactor()}
	facts := buildinfo.Read()
	e.parts["version"] = facts
	e.add("program", checkOK, "slipway %s, %s", facts.Version, facts.Platform)
	// First: it registers the keys of the user with the redactor.
	e.contexts()
	e.platform(ctx, choice)
	e.kubernetes(ctx, local)
	e.parts["checks"] = e.checks
	return e
}

// contexts reads the contexts of this machine. Their keys are registered with
// the redactor before any other check can print something.
func (e *diagnosis) contexts() {
	e.hide.know(os.Getenv(apiclient.KeyVariable))
	book, err := apiclient.ReadContexts()
	if err != nil {
		e.add("contexts", checkFailed, "%v", err)
		return
	}
	for _, one := range book.Entries {
		e.hide.know(one.Key.Reveal())
	}
	e.parts["contexts"] = apiclient.ShownContexts(book)
	e.add("contexts", checkOK, "%s, current is %s", finding.Count(len(book.Entries), "context", "contexts"), printer.OrDash(book.Current))
}

// platform checks the chosen platform, if there is one: reachability, key,
// runtimes and audit log. Each step needs the one before, so it stops at the
// first that fails.
func (e *diagnosis) platform(ctx context.Context, choice *apiclient.Choice) {
	client, err := choice.Open()
	// Working without a platform is a choice; a broken context is a failure.
	if errors.Is(err, apiclient.ErrNoPlatform) {
		e.add("platform", checkSkipped, "%v", err)
		return
	}
	if err != nil {
		e.add("platform", checkFailed, "%v", err)
		return
	}
	defer client.Close()
	if !e.reach(ctx, client) {
		return
	}
	me, err := apiclient.Call(ctx, client, client.Auth().Me, &platformv1.MeRequest{})
	if err != nil {
		e.add("key", checkFailed, "%v", err)
		return
	}
	e.keep("whoami", me)
	e.key(me)
	e.database(ctx, client, me)
	e.runtimes(ctx, client)
	e.history(ctx, client)
	e.audit(ctx, client, me)
}

// reach sends a request that needs no key, inspects the certificate of the
// connection, and reports whether the platform responds. A rejected key is
// thereby distinct from an unreachable platform.
func (e *diagnosis) reach(ctx context.Context, client *apiclient.Client) bool {
	var state *tls.ConnectionState
	// The trace sees the handshake of the real connection, with the client's
	// own TLS settings.
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeDone: func(found tls.ConnectionState, err error) {
		if err == nil {
			state = &found
		}
	}})
	began := time.Now()
	if _, err := apiclient.Call(traced, client, client.Auth().Methods, &platformv1.MethodsRequest{}); err != nil {
		e.add("platform", checkFailed, "%v", err)
		return false
	}
	e.add("platform", checkOK, "%s responds in %s", client.BaseURL(), time.Since(began).Round(time.Millisecond))
	// No handshake took place: the URL is plain HTTP, which the client allows
	// for loopback alone.
	if state == nil || len(state.PeerCertificates) == 0 {
		e.add("certificate", checkWarning, "%s is not encrypted: that is good within this machine only", client.BaseURL())
		return true
	}
	// The chain was verified by the handshake, so only the expiry is left to
	// check.
	leaf := state.PeerCertificates[0]
	e.parts["certificate"] = map[string]any{
		"subject": leaf.Subject.String(), "issuer": leaf.Issuer.String(), "names": leaf.DNSNames, "notAfter": leaf.NotAfter,
		"version": tls.VersionName(state.Version), "protocol": state.NegotiatedProtocol,
	}
	grade := checkOK
	if time.Until(leaf.NotAfter) < soon {
		grade = checkWarning
	}
	e.add("certificate", grade, "by %s, good until %s, %s", leaf.Issuer.CommonName, leaf.NotAfter.UTC().Format(time.RFC3339), tls.VersionName(state.Version))
	return true
}

// key checks the expiry of the user's key. An expired key is not seen here: the
// platform refuses it before.
func (e *diagnosis) key(me *platformv1.MeResponse) {
	state, expires := checkOK, me.GetKey().GetExpiresAt()
	if expires != nil && time.Until(expires.AsTime()) < soon {
		state = checkWarning
	}
	e.add("key", state, "%s (%s) in the account %s, platform %s, key expires %s",
		me.GetUser().GetEmail(), apiclient.RoleName(me.GetUser().GetRole()), me.GetAccount().GetName(), printer.OrDash(me.GetPlatformVersion()), printer.Expiry(expires))
}

// database checks the standby of the platform's database. Users other than admins do not
// see it, and platforms of older versions do not report it.
func (e *diagnosis) database(ctx context.Context, client *apiclient.Client, me *platformv1.MeResponse) {
	if me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN {
		return
	}
	response, err := apiclient.Call(ctx, client, client.Accounts().GetAccount, &platformv1.GetAccountRequest{})
	if err != nil || response.GetDatabase() == nil {
		e.add("database", checkSkipped, "the platform does not report its database")
		return
	}
	state, message := databaseState(response.GetDatabase())
	e.add("database", state, "%s", message)
}

// databaseState judges how a database is replicated. Several hosts in the URL mean that a
// fail-over is planned, which needs a standby.
func databaseState(found *platformv1.PlatformDatabase) (state, message string) {
	switch {
	case found.GetKind() == "sqlite":
		return checkOK, "SQLite, without a standby: back it up with slipway platform backup FILE"
	case found.GetStandbys() == 0 && found.GetHosts() > 1:
		return checkWarning, fmt.Sprintf("PostgreSQL: database.url names %d hosts, and no standby is connected to the primary: there is nothing to fail over to", found.GetHosts())
	case found.GetStandbys() == 0:
		return checkOK, "PostgreSQL, without a standby that streams from it"
	case !found.GetSynchronous():
		return checkWarning, fmt.Sprintf("PostgreSQL with %d standbys, none of them synchronous: a fail-over can lose acknowledged writes; set synchronous_standby_names", found.GetStandbys())
	}
	return checkOK, fmt.Sprintf("PostgreSQL with %d standbys, synchronous", found.GetStandbys())
}

// runtimes checks all runtimes of the account by the status that they reported.
// It sends no request to a runtime itself.
func (e *diagnosis) runtimes(ctx context.Context, client *apiclient.Client) {
	all, err := client.ListRuntimes(ctx)
	if err != nil {
		e.add("runtimes", checkFailed, "%v", err)
		return
	}
	e.keep("runtimes", &platformv1.ListRuntimesResponse{Runtimes: all})
	e.add("runtimes", checkOK, "%s", finding.Count(len(all), "runtime", "runtimes"))
	for _, one := range all {
		state, message := runtimeState(one)
		e.add("runtime "+one.GetName(), state, "%s", message)
	}
}

// runtimeState returns the most severe problem of a runtime alone: the status
// of an offline runtime is old, so its other problems may be gone.
func runtimeState(one *platformv1.Runtime) (state, message string) {
	health := printer.EnumWord(one.GetHealth().String(), "HEALTH_STATUS_")
	expires := one.GetGitTokenExpiresAt()
	switch {
	// Failures come before warnings.
	case !one.GetOnline():
		return checkFailed, "it is offline, last seen " + printer.Timestamp(one.GetLastHeartbeatAt())
	case one.GetHealth() == platformv1.HealthStatus_HEALTH_STATUS_DEGRADED:
		return checkFailed, printer.WithMessage(health, one.GetHealthMessage())
	case expires != nil && time.Now().After(expires.AsTime()):
		return checkFailed, "its Git token has expired: run slipway integration git set-runtime-token --runtime " + one.GetName() + " --token-file FILE"
	case len(one.GetPendingSteps()) > 0:
		var steps []string
		for _, step := range one.GetPendingSteps() {
			_, command := apiclient.PendingStep(step, one.GetName())
			steps = append(steps, command)
		}
		return checkWarning, "still to do: " + strings.Join(steps, "; ")
	case expires != nil && time.Until(expires.AsTime()) < soon:
		return checkWarning, "its Git token expires " + printer.Timestamp(expires)
	}
	return checkOK, strings.TrimSpace("online, " + health + ", version " + printer.OrDash(one.GetVersion()))
}

// history checks that the platform deletes expired history. A platform of an
// older version has none, and restricted users may not read the status: both are
// skipped checks.
func (e *diagnosis) history(ctx context.Context, client *apiclient.Client) {
	status, err := apiclient.Call(ctx, client, client.History().GetHistoryStatus, &platformv1.GetHistoryStatusRequest{})
	if err != nil {
		e.add("history", checkSkipped, "%v", err)
		return
	}
	e.keep("history", status)
	switch {
	case status.GetProblem() != "":
		e.add("history", checkWarning, "deleting expired rows failed, last done %s: %s", printer.Timestamp(status.GetCleanedAt()), status.GetProblem())
	case status.GetBehind():
		e.add("history", checkWarning, "expired rows are not deleted, last done %s: look at the logs of the platform", printer.Timestamp(status.GetCleanedAt()))
	default:
		e.add("history", checkOK, "deployments are kept for %s and traffic for %s, expired rows last deleted %s", kept(status.GetDeploymentsKept()), kept(status.GetTrafficKept()), printer.Timestamp(status.GetCleanedAt()))
	}
}

// kept formats a retention; none is for ever.
func kept(d *durationpb.Duration) string {
	if d == nil {
		return "ever"
	}
	return fmt.Sprintf("%d days", d.AsDuration()/(24*time.Hour))
}

// audit adds the user's last actions to the archive, if the user may read the
// log. Failing to read it is a skipped check: it is context for support and no
// problem of its own.
func (e *diagnosis) audit(ctx context.Context, client *apiclient.Client, me *platformv1.MeResponse) {
	if me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN {
		e.add("audit", checkSkipped, "only admins read the audit log")
		return
	}
	actor := me.GetUser().GetEmail()
	if key := me.GetKey().GetName(); key != "" {
		actor += " (key " + key + ")" // as the log names a key
	}
	entries, _, err := client.AuditEntries(ctx, &platformv1.ListEntriesRequest{Actor: actor}, ownAudit)
	if err != nil {
		e.add("audit", checkSkipped, "%v", err)
		return
	}
	e.keep("audit", &platformv1.ListEntriesResponse{Entries: entries})
	e.add("audit", checkOK, "%d of the last own actions", len(entries))
}

// kubernetes checks whether the cluster of the kubeconfig responds. Having none
// is not an error: many users work through the platform only. For the same
// reason an unreachable cluster is a warning.
func (e *diagnosis) kubernetes(ctx context.Context, local kube.UserChoice) {
	cluster, err := kubeflags.Connect(local)
	if err != nil {
		e.add("kubernetes", checkSkipped, "%v", err)
		return
	}
	defer cluster.Close()
	bounded, cancel := context.WithTimeout(ctx, apiclient.DialTimeout)
	defer cancel()
	// /version needs no rights beyond those that every authenticated user has.
	raw, err := cluster.Client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(bounded)
	if err != nil {
		e.add("kubernetes", checkWarning, "%s does not respond: %v", cluster.Config.Host, err)
		return
	}
	version, err := kubernetesVersion(raw)
	if err != nil {
		e.add("kubernetes", checkWarning, "%s: %v", cluster.Config.Host, err)
		return
	}
	e.parts["kubernetes"] = map[string]any{"server": cluster.Config.Host, "version": version}
	e.add("kubernetes", checkOK, "%s is %s", cluster.Config.Host, version)
	e.gatewayAPI(ctx, cluster)
	e.runtimeParts(ctx, cluster)
}

// gatewayAPI runs the check of preflight for Gateway API: its definitions, the GatewayClasses
// of Slipway and the addresses of their Gateways. A cluster without such a class skips it.
func (e *diagnosis) gatewayAPI(ctx context.Context, cluster *kube.Cluster) {
	const name = "gateway api"
	states := map[preflight.State]string{
		preflight.Passed: checkOK, preflight.Warned: checkWarning, preflight.Failed: checkFailed, preflight.Skipped: checkSkipped,
	}
	options := preflight.Options{Stage: preflight.After, Only: []preflight.Code{preflight.GatewayAPI}}
	for _, result := range preflight.Run(ctx, preflight.World{Cluster: cluster}, options) {
		e.parts["gatewayAPI"] = result
		for _, found := range result.Findings {
			e.add(name, states[result.State], "%s", found.Finding)
		}
		if len(result.Findings) == 0 {
			e.add(name, states[result.State], "%s", cmp.Or(result.Message, result.Looked))
		}
	}
}
