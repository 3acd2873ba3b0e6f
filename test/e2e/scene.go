package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/e2e/node"
)

// timeout bounds every wait. Only a failing run waits that long.
const timeout = 3 * time.Minute

// Host names that the cluster DNS resolves for Pods, for this process, and for
// clients outside: to a load balancer, or to the node for the Git server.
const (
	platformHost = "platform.e2e.test"
	runtimeHost  = "runtime.e2e.test"
	meshHost     = "mesh.e2e.test"
	appHost      = "app.e2e.test"
	gitHost      = "git.e2e.test"
)

// Images that are loaded into the node. The second tag names the same image.
const (
	imageRepository = "slipway.dev/slipway"
	firstTag        = "e2e-1"
	secondTag       = "e2e-2"
	webImage        = "slipway.dev/e2e-web:v1"
)

// scene is the state of one run. Steps run one after the other and read what
// earlier steps stored.
type scene struct {
	// root is the repository, work the folder for all state. quiet and traffic
	// are the durations of the footprint and of the load around the upgrade.
	root, work     string
	quiet, traffic time.Duration
	// only is the part that runs after the installation; empty runs all but partRelease.
	only string

	// account is the ID of the admin's account, and before the inventory of the
	// empty cluster.
	began     time.Time
	node      *node.Node
	authority *authority
	git       *gitServer
	account   string
	before    inventory
}

// newScene returns a run that starts now.
func newScene() *scene { return &scene{began: time.Now()} }

// step is one part of the run. It returns a summary for the report.
type step struct {
	what string
	do   func(context.Context) (string, error)
	// part can be chosen with --only. Steps without one belong to the
	// installation, which every part needs.
	part string
}

// partRelease is the part with releases that the traffic decides. It runs only if it is
// chosen: it judges times, which a busy machine makes longer.
const partRelease = "release"

// play runs the steps until one fails, prints the state of the cluster after a
// failure, and always stops the Git server and the node.
func (s *scene) play(ctx context.Context) error {
	err := s.start(ctx)
	if err == nil {
		err = s.steps(ctx)
	}
	// An interrupted run prints nothing: the user wants it to end, and the
	// requests would fail on the canceled context.
	if err != nil && ctx.Err() == nil && s.node != nil && s.node.Client != nil {
		s.diagnose(ctx)
	}
	if s.git != nil {
		err = errors.Join(err, s.git.stop())
	}
	if s.node != nil {
		began := time.Now()
		stopped := s.node.Stop()
		s.report(time.Since(began), "the node is stopped")
		err = errors.Join(err, stopped)
	}
	if err == nil {
		fmt.Printf("PASS: everything, in %s\n", time.Since(s.began).Round(time.Second))
	}
	return err
}

// start starts the node and the Git server, and takes the first inventory.
// s.node is set even if the start fails, so that play stops the components that
// run.
func (s *scene) start(ctx context.Context) (err error) {
	if s.root, err = filepath.Abs(s.root); err != nil {
		return err
	}
	if s.authority, err = newAuthority(filepath.Join(s.work, "authority.crt")); err != nil {
		return err
	}
	images := filepath.Join(s.root, "bin", "e2e")
	last := time.Now()
	s.node, err = node.Start(ctx, node.Config{
		Bin: filepath.Join(s.root, "bin"), Work: s.work,
		Images: []string{filepath.Join(images, "pause.tar"), filepath.Join(images, "web.tar"), filepath.Join(images, "slipway.tar")},
		Names: map[string]string{
			platformHost: platformRelease().namespace + "/slipway-platform", gitHost: node.Address().String(),
			runtimeHost: runtimeRelease().namespace + "/slipway-edge", appHost: runtimeRelease().namespace + "/slipway-edge",
			meshHost: meshNamespace + "/istio-ingressgateway",
		},
	}, func(what string) {
		s.report(time.Since(last), "node: "+what)
		last = time.Now()
	})
	if err != nil {
		return err
	}
	if s.git, err = startGit(s.work, s.authority); err != nil {
		return err
	}
	last = time.Now()
	if err := s.takeFirst(ctx); err != nil {
		return err
	}
	s.report(time.Since(last), fmt.Sprintf("what is there before: %d objects, mounts, links and rules", len(s.before)))
	return nil
}

// steps runs the life of an installation, from the install to the uninstall.
// The order matters: each step needs the state that earlier ones leave, and the
// footprint is measured before the upgrade, while no load runs.
func (s *scene) steps(ctx context.Context) error {
	for _, one := range []step{
		{"the image has a second tag", s.tagImage, ""},
		{"the platform is installed with its chart", s.installPlatform, ""},
		{"an admin signs in", s.signIn, ""},
		{"the runtime is installed with its chart and joins through the tunnel", s.installRuntime, ""},
		{"an application is synced from Git and healthy", s.deliver, ""},
		{"the application is served through the edge, from outside", s.serve, ""},
		{"a commit is live", s.change, ""},
		{"a bad revision goes back by itself", s.rollBack, partRelease},
		{"the next revision is promoted", s.promote, partRelease},
		{"the runtime is reached through an Ingress of its own edge", s.joinIngress, "access"},
		{"the runtime is reached through the gateway of a mesh", s.joinMesh, "access"},
		{"the runtime is reached as with the Gateway API", s.joinHTTPRoute, "access"},
		{"the runtime is reached through the tunnel again", s.joinTunnel, "access"},
		{"footprint of the idle runtime", s.footprint, "footprint"},
		{"the chart is upgraded under traffic", s.upgrade, "upgrade"},
		{"the runtime is uninstalled", s.uninstallRuntime, "uninstall"},
		{"the platform is uninstalled", s.uninstallPlatform, "uninstall"},
		{"nothing is left", s.compare, "uninstall"},
	} {
		if isOptional := one.part == partRelease; one.part != s.only && one.part != "" && (s.only != "" || isOptional) {
			continue
		}
		began := time.Now()
		about, err := one.do(ctx)
		if err != nil {
			s.report(time.Since(began), "FAILED: "+one.what+": "+err.Error())
			return errors.New(one.what + " failed")
		}
		if about != "" {
			about = ": " + about
		}
		s.report(time.Since(began), one.what+about)
	}
	return nil
}

// report prints a step with the time since the start of the run and its own
// duration.
func (s *scene) report(took time.Duration, what string) {
	fmt.Printf("%7.1fs  %6.1fs  %s\n", time.Since(s.began).Seconds(), took.Seconds(), what)
}

// until polls a condition until it returns nil or patience is over, and returns
// the last meaningful error.
func (s *scene) until(ctx context.Context, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not so within %s", timeout))
	defer cancel()
	return programs.Await(ctx, condition)
}

// slipway runs the built command line with input on its standard input, and
// returns its standard output. HOME is the working folder, so the session of
// the sign-in is kept between calls and the user's own is untouched.
func (s *scene) slipway(ctx context.Context, input string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(s.root, "bin", "slipway"), words...)
	command.Env = append(os.Environ(), "HOME="+s.work, "KUBECONFIG="+s.node.Kubeconfig)
	command.Stdin = strings.NewReader(input)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var problems strings.Builder
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("slipway %s: %w: %s%s", strings.Join(words, " "), err, problems.String(), output)
	}
	return string(output), nil
}

// manifest applies objects with kubectl, server-side.
func (s *scene) manifest(ctx context.Context, text string) error {
	command := s.node.Kubectl(ctx, "apply", "--server-side", "-f", "-")
	command.Stdin = strings.NewReader(text)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, output)
	}
	return nil
}

// diagnose prints objects, events and the end of the logs for a failed run.
// Each command has its own timeout, because the cause may be an API server that
// hangs, and errors are ignored: they are part of the output.
func (s *scene) diagnose(ctx context.Context) {
	for _, words := range [][]string{
		{"get", "pods,services,ingresses", "-A", "-o", "wide"}, {"get", "applications.argoproj.io", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"describe", "pods", "-A"},
		{"logs", "-n", runtimeRelease().namespace, "-l", "app.kubernetes.io/part-of=slipway", "--prefix", "--tail=40", "--all-containers"},
		{"logs", "-n", platformRelease().namespace, "-l", "app.kubernetes.io/part-of=slipway", "--prefix", "--tail=40"},
	} {
		bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
		output, _ := s.node.Kubectl(bounded, words...).CombinedOutput()
		cancel()
		fmt.Printf("--- kubectl %s\n%s\n", strings.Join(words, " "), output)
	}
}
