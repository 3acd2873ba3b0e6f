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

	"slipway.dev/slipway/test/e2e/node"
)

const (
	// patience bounds every wait. Only a run that fails waits so long.
	patience  = 3 * time.Minute
	lookAgain = 100 * time.Millisecond
)

// Names that the cluster and the outside resolve.
const (
	platformHost = "platform.e2e.test"
	runtimeHost  = "runtime.e2e.test"
	appHost      = "app.e2e.test"
	gitHost      = "git.e2e.test"
)

// Images that are loaded. The second tag of Slipway is the same program.
const (
	imageRepository = "slipway.dev/slipway"
	firstTag        = "e2e-1"
	secondTag       = "e2e-2"
	webImage        = "slipway.dev/e2e-web:v1"
)

// scene is one run.
type scene struct {
	root, work     string
	quiet, traffic time.Duration

	began     time.Time
	node      *node.Node
	authority *authority
	git       *gitServer
	account   string
	before    inventory
}

func newScene() *scene { return &scene{began: time.Now()} }

// step is one thing that has to succeed.
type step struct {
	what string
	do   func(context.Context) (string, error)
}

// play runs the steps until one fails, and always cleans up.
func (s *scene) play(ctx context.Context) error {
	err := s.start(ctx)
	if err == nil {
		err = s.steps(ctx)
	}
	if err != nil && ctx.Err() == nil && s.node != nil && s.node.Client != nil {
		s.diagnose(ctx)
	}
	if s.git != nil {
		err = errors.Join(err, s.git.stop())
	}
	if s.node != nil {
		began := time.Now()
		stopped := s.node.Stop()
		s.say(time.Since(began), "the node is stopped")
		err = errors.Join(err, stopped)
	}
	if err == nil {
		fmt.Printf("PASS: everything, in %s\n", time.Since(s.began).Round(time.Second))
	}
	return err
}

// start brings up the node and what is outside of the cluster.
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
		},
	}, func(what string) {
		s.say(time.Since(last), "node: "+what)
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
	s.say(time.Since(last), fmt.Sprintf("what is there before: %d objects, mounts, links and rules", len(s.before)))
	return nil
}

// steps are the life of an installation.
func (s *scene) steps(ctx context.Context) error {
	for _, one := range []step{
		{"the image has a second tag", s.tagImage},
		{"the platform is installed with its chart", s.installPlatform},
		{"an admin signs in", s.signIn},
		{"the runtime is installed with its chart and joins through the tunnel", s.installRuntime},
		{"an application is synced from Git and healthy", s.deliver},
		{"the application is served through the edge, from outside", s.serve},
		{"a commit is live", s.change},
		{"the runtime is reached through an Ingress of its own edge", s.joinIngress},
		{"the runtime is reached as in a mesh", s.joinMesh},
		{"the runtime is reached as with the Gateway API", s.joinHTTPRoute},
		{"the runtime is reached through the tunnel again", s.joinTunnel},
		{"footprint of the idle runtime", s.footprint},
		{"the chart is upgraded under traffic", s.upgrade},
		{"the runtime is uninstalled", s.uninstallRuntime},
		{"the platform is uninstalled", s.uninstallPlatform},
		{"nothing is left", s.compare},
	} {
		began := time.Now()
		about, err := one.do(ctx)
		if err != nil {
			s.say(time.Since(began), "FAILED: "+one.what+": "+err.Error())
			return errors.New(one.what + " failed")
		}
		if about != "" {
			about = ": " + about
		}
		s.say(time.Since(began), one.what+about)
	}
	return nil
}

// say prints a step with the time that it took and the time of the run.
func (s *scene) say(took time.Duration, what string) {
	fmt.Printf("%7.1fs  %6.1fs  %s\n", time.Since(s.began).Seconds(), took.Seconds(), what)
}

// until waits for a condition.
func (s *scene) until(ctx context.Context, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not so within %s", patience))
	defer cancel()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	var last error
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // later ones say only that the time is over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

// slipway runs the command line as a person does, and gives what it prints.
func (s *scene) slipway(ctx context.Context, input string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// manifest applies objects with kubectl.
func (s *scene) manifest(ctx context.Context, text string) error {
	command := s.node.Kubectl(ctx, "apply", "--server-side", "-f", "-")
	command.Stdin = strings.NewReader(text)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, output)
	}
	return nil
}

// diagnose prints what the cluster says.
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
