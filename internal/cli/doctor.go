package cli

import (
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

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// How a check of doctor ended.
const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
	checkSkipped = "skipped"
)

const (
	// soon is when an end is worth a word.
	soon = 14 * 24 * time.Hour
	// ownAudit is how many of the own actions are in a bundle.
	ownAudit = 100
)

// doctorCheck is one line of doctor.
type doctorCheck struct {
	Check   string `json:"check"`
	State   string `json:"state"`
	Message string `json:"message"`
}

// examination is what doctor found.
type examination struct {
	checks []doctorCheck
	// parts are the files of the bundle.
	parts map[string]any
	hide  *redactor
}

func (e *examination) add(check, state, format string, args ...any) {
	e.checks = append(e.checks, doctorCheck{check, state, e.hide.text(fmt.Sprintf(format, args...))})
}

// keep puts a message into the bundle.
func (e *examination) keep(name string, message proto.Message) {
	value, err := protoValue(message)
	if err != nil {
		value = err.Error()
	}
	e.parts[name] = value
}

// doctorCommand is `slipway doctor`.
func doctorCommand() *cobra.Command {
	choice, local := &platformChoice{}, kube.UserChoice{}
	path := ""
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong, and write it to a file for those who help",
		Long: `Looks at the contexts, at the platform and its certificate, at the runtimes, and at
the cluster that kubectl would use, and says what is wrong. It ends with 1 when
something is. With --output everything that it saw goes into an archive without
keys, passwords and tokens: look at it before you send it to somebody.`,
		Example: `  slipway doctor
  slipway doctor --output doctor.tar.gz`,
		Args: cobra.NoArgs,
	}
	choice.add(command.Flags())
	command.Flags().StringVar(&path, "output", "", "archive to write, such as doctor.tar.gz")
	command.Flags().StringVar(&local.Kubeconfig, "kubeconfig", "", "kubeconfig file (default KUBECONFIG or ~/.kube/config)")
	command.Flags().StringVar(&local.Context, "context", "", "context of the kubeconfig (default its current one)")
	command.RunE = func(command *cobra.Command, _ []string) error {
		found := examine(command.Context(), choice, local)
		if path != "" {
			if err := writePrivate(path, found.bundle); err != nil {
				return err
			}
			note(command, "What was found is in %s. Look at it before you send it to somebody.", path)
		}
		if err := printChecks(command.OutOrStdout(), found.checks); err != nil {
			return err
		}
		wrong := 0
		for _, check := range found.checks {
			if check.State == checkFailed {
				wrong++
			}
		}
		if wrong > 0 {
			return verdict{exitFailure, fmt.Errorf("%d of %d checks failed", wrong, len(found.checks))}
		}
		return nil
	}
	return command
}

func printChecks(w io.Writer, checks []doctorCheck) error {
	rows, flush := newTable(w)
	rows.row("CHECK", "STATE", "MESSAGE")
	for _, check := range checks {
		rows.row(check.Check, check.State, check.Message)
	}
	return flush()
}

// examine looks at everything, one after the other.
func examine(ctx context.Context, choice *platformChoice, local kube.UserChoice) *examination {
	e := &examination{parts: map[string]any{}, hide: newRedactor()}
	facts := readBuildFacts()
	e.parts["version"] = facts
	e.add("program", checkOK, "slipway %s, %s", facts.Version, facts.Platform)
	e.contexts()
	e.platform(ctx, choice)
	e.kubernetes(ctx, local)
	e.parts["checks"] = e.checks
	return e
}

func (e *examination) contexts() {
	book, err := readContexts()
	if err != nil {
		e.add("contexts", checkFailed, "%v", err)
		return
	}
	e.hide.know(os.Getenv(appKeyVariable))
	for _, one := range book.Contexts {
		e.hide.know(one.Key.Reveal())
	}
	e.parts["contexts"] = shownContexts(book)
	e.add("contexts", checkOK, "%d contexts, current is %s", len(book.Contexts), orNone(book.Current))
}

// platform looks at the platform that is chosen, if one is.
func (e *examination) platform(ctx context.Context, choice *platformChoice) {
	client, err := choice.open()
	if errors.Is(err, errNoPlatform) {
		e.add("platform", checkSkipped, "%v", err)
		return
	}
	if err != nil {
		e.add("platform", checkFailed, "%v", err)
		return
	}
	defer client.close()
	if !e.reach(ctx, client) {
		return
	}
	me, err := ask(ctx, client, client.auth().Me, &platformv1.MeRequest{})
	if err != nil {
		e.add("key", checkFailed, "%v", err)
		return
	}
	e.keep("whoami", me)
	e.key(me)
	e.runtimes(ctx, client)
	e.audit(ctx, client, me)
}

// reach asks a question that needs no key, and looks at the certificate.
func (e *examination) reach(ctx context.Context, client *platformClient) bool {
	var state *tls.ConnectionState
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeDone: func(found tls.ConnectionState, err error) {
		if err == nil {
			state = &found
		}
	}})
	began := time.Now()
	if _, err := ask(traced, client, client.auth().Methods, &platformv1.MethodsRequest{}); err != nil {
		e.add("platform", checkFailed, "%v", err)
		return false
	}
	e.add("platform", checkOK, "%s answers in %s", client.base(), time.Since(began).Round(time.Millisecond))
	if state == nil || len(state.PeerCertificates) == 0 {
		e.add("certificate", checkWarning, "%s is not encrypted: that is good within this machine only", client.base())
		return true
	}
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

func (e *examination) key(me *platformv1.MeResponse) {
	state, expires := checkOK, me.GetKey().GetExpiresAt()
	if expires != nil && time.Until(expires.AsTime()) < soon {
		state = checkWarning
	}
	e.add("key", state, "%s (%s) in the account %s, platform %s, key expires %s",
		me.GetUser().GetEmail(), roleWord(me.GetUser().GetRole()), me.GetAccount().GetName(), orNone(me.GetPlatformVersion()), shownExpiry(expires))
}

func (e *examination) runtimes(ctx context.Context, client *platformClient) {
	all, err := client.allRuntimes(ctx)
	if err != nil {
		e.add("runtimes", checkFailed, "%v", err)
		return
	}
	e.keep("runtimes", &platformv1.ListRuntimesResponse{Runtimes: all})
	e.add("runtimes", checkOK, "%d runtimes", len(all))
	for _, one := range all {
		state, message := runtimeVerdict(one)
		e.add("runtime "+one.GetName(), state, "%s", message)
	}
}

// runtimeVerdict says what is wrong with a runtime.
func runtimeVerdict(one *platformv1.Runtime) (state, message string) {
	health := enumWord(one.GetHealth().String(), "HEALTH_STATUS_")
	expires := one.GetGitTokenExpiresAt()
	switch {
	case !one.GetOnline():
		return checkFailed, "it is offline, last seen " + shownStamp(one.GetLastHeartbeatAt())
	case one.GetHealth() == platformv1.HealthStatus_HEALTH_STATUS_DEGRADED:
		return checkFailed, withMessage(health, one.GetHealthMessage())
	case expires != nil && time.Now().After(expires.AsTime()):
		return checkFailed, "its Git token has expired: run slipway integration git set-runtime-token --runtime " + one.GetName()
	case len(one.GetPendingSteps()) > 0:
		var steps []string
		for _, step := range one.GetPendingSteps() {
			_, command := pendingStep(step, one.GetName())
			steps = append(steps, command)
		}
		return checkWarning, "still to do: " + strings.Join(steps, "; ")
	case expires != nil && time.Until(expires.AsTime()) < soon:
		return checkWarning, "its Git token expires " + shownStamp(expires)
	}
	return checkOK, strings.TrimSpace("online, " + health + ", version " + orNone(one.GetVersion()))
}

// audit has the own last actions, if one may read them.
func (e *examination) audit(ctx context.Context, client *platformClient, me *platformv1.MeResponse) {
	if me.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN {
		e.add("audit", checkSkipped, "only admins read the audit log")
		return
	}
	actor := me.GetUser().GetEmail()
	if key := me.GetKey().GetName(); key != "" {
		actor += " (key " + key + ")" // as the log names a key
	}
	entries, _, err := client.auditEntries(ctx, &platformv1.ListEntriesRequest{Actor: actor}, ownAudit)
	if err != nil {
		e.add("audit", checkSkipped, "%v", err)
		return
	}
	e.keep("audit", &platformv1.ListEntriesResponse{Entries: entries})
	e.add("audit", checkOK, "%d of the last own actions", len(entries))
}

// kubernetes looks at the cluster that kubectl would use.
func (e *examination) kubernetes(ctx context.Context, local kube.UserChoice) {
	cluster, err := kube.ConnectUser(local, kube.Version(readBuildFacts().Version))
	if err != nil {
		e.add("kubernetes", checkSkipped, "%v", err)
		return
	}
	defer cluster.Close()
	bounded, cancel := context.WithTimeout(ctx, platformDialTimeout)
	defer cancel()
	raw, err := cluster.Client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(bounded)
	if err != nil {
		e.add("kubernetes", checkWarning, "%s does not answer: %v", cluster.Config.Host, err)
		return
	}
	version, err := kubernetesVersion(raw)
	if err != nil {
		e.add("kubernetes", checkWarning, "%s: %v", cluster.Config.Host, err)
		return
	}
	e.parts["kubernetes"] = map[string]any{"server": cluster.Config.Host, "version": version}
	e.add("kubernetes", checkOK, "%s is %s", cluster.Config.Host, version)
}
