package gitops

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/test/gitops/agentprocess"
)

// roundLabel has the round of a hook.
const roundLabel = "round"

// revision is what Git has in a round. Two ConfigMaps, the Deployment and the
// Service stay and change; one ConfigMap is there for that round alone, and one
// in even rounds.
func revision(round int) map[string]string {
	files := map[string]string{
		"app/keep.yaml":   configMap("keep", round, 0),
		"app/last.yaml":   configMap("last", round, 3),
		"app/web.yaml":    deployment(round),
		"app/before.yaml": job("before", "PreSync", round),
		"app/after.yaml":  job("after", "PostSync", round),
	}
	files[fmt.Sprintf("app/round-%d.yaml", round)] = configMap(fmt.Sprint("round-", round), round, 1)
	if round%2 == 0 {
		files["app/even.yaml"] = configMap("even", round, 2)
	}
	return files
}

func configMap(name string, value, wave int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: %s, annotations: {argocd.argoproj.io/sync-wave: "%d"}}
data: {value: "%d"}
`, name, wave, value)
}

func deployment(round int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {argocd.argoproj.io/sync-wave: "1"}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "slipway.dev/demo:v%d", ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {argocd.argoproj.io/sync-wave: "2", value: "%d"}}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`, 1+round%9, round)
}

func job(name, phase string, round int) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {%s: "%d"}, annotations: {argocd.argoproj.io/hook: %s}}
spec:
  backoffLimit: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: job, image: "slipway.dev/demo:v1", args: [--exit-after=50ms, --exit-code=0]}]
`, name, roundLabel, round, phase)
}

// check waits until the recorder has seen the end of a round, and looks at all
// that ever was. Once the Application is in order, nothing is missing in the
// cluster any more: only the watch may be late.
func check(t *testing.T, recorder *agentprocess.Recorder, round int) {
	t.Helper()
	lives := recorder.Await(t, func(lives []agentprocess.Life) error {
		return errors.Join(isRevision(lives, round), hooksEnded(lives, round))
	})
	for _, problem := range []error{checkKept(lives), checkPassing(lives, round), checkHooks(lives, round)} {
		if problem != nil {
			t.Errorf("round %d: %v\n%s", round, problem, agentprocess.Show(lives))
		}
	}
}

// isRevision is nil when the objects of a round are there, with its values, and no
// others.
func isRevision(lives []agentprocess.Life, round int) error {
	want := []string{
		"ConfigMap/keep=" + strconv.Itoa(round), "ConfigMap/last=" + strconv.Itoa(round), fmt.Sprintf("ConfigMap/round-%d=%d", round, round),
		fmt.Sprintf("Deployment/web=slipway.dev/demo:v%d", 1+round%9), "Service/web=" + strconv.Itoa(round),
		"Job/before=" + strconv.Itoa(round), "Job/after=" + strconv.Itoa(round),
	}
	if round%2 == 0 {
		want = append(want, "ConfigMap/even="+strconv.Itoa(round))
	}
	var got []string
	for i := range lives {
		if lives[i].Deletions == 0 && lives[i].Name != "kube-root-ca.crt" {
			got = append(got, lives[i].ID()+"="+value(&lives[i]))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("there are %v, and not %v", got, want)
	}
	return nil
}

// hooksEnded is nil when the last Job of each hook of a round is complete. The agent
// sees that in a watch of its own, which may be ahead of the recorder's.
func hooksEnded(lives []agentprocess.Life, round int) error {
	_, done := hooksOf(lives, round)
	if !done["before"] || !done["after"] {
		return fmt.Errorf("the hooks of round %d ended %v", round, done)
	}
	return nil
}

// hooksOf counts the Jobs of each hook of a round, and reports whether the last
// one is complete.
func hooksOf(lives []agentprocess.Life, round int) (count map[string]int, done map[string]bool) {
	count, done = map[string]int{}, map[string]bool{}
	for i := range lives {
		if life := &lives[i]; life.Kind == "Job" && value(life) == strconv.Itoa(round) {
			count[life.Name]++
			done[life.Name] = life.Done > 0
		}
	}
	return count, done
}

// value returns the field that shows the round of an object.
func value(life *agentprocess.Life) string {
	object := life.Last
	switch life.Kind {
	case "Deployment":
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if len(containers) == 0 {
			return ""
		}
		image, _ := containers[0].(map[string]any)["image"].(string)
		return image
	case "Service":
		return object.GetAnnotations()["value"]
	case "Job":
		return object.GetLabels()[roundLabel]
	}
	value, _, _ := unstructured.NestedString(object.Object, "data", "value")
	return value
}

// checkKept: what stays in Git is never deleted, and so has one life.
func checkKept(lives []agentprocess.Life) error {
	var problems []error
	for _, kept := range []string{"ConfigMap/keep", "ConfigMap/last", "Deployment/web", "Service/web"} {
		count := 0
		for i := range lives {
			if lives[i].ID() != kept {
				continue
			}
			count++
			if lives[i].Deletions > 0 {
				problems = append(problems, fmt.Errorf("%s was deleted", kept))
			}
		}
		if count != 1 {
			problems = append(problems, fmt.Errorf("%s was created %d times", kept, count))
		}
	}
	return errors.Join(problems...)
}

// checkPassing: what is in Git for a while is created once for that while, and
// deleted once after it. Nothing comes back.
func checkPassing(lives []agentprocess.Life, round int) error {
	created := map[string]int{}
	var problems []error
	for i := range lives {
		life := &lives[i]
		if life.Deletions > 1 {
			problems = append(problems, fmt.Errorf("%s %s was deleted %d times", life.ID(), life.UID, life.Deletions))
		}
		switch {
		case life.ID() == "ConfigMap/even":
			created["ConfigMap/even"]++
		case strings.HasPrefix(life.ID(), "ConfigMap/round-"):
			created[life.ID()]++
		}
	}
	if want := round/2 + 1; created["ConfigMap/even"] != want {
		problems = append(problems, fmt.Errorf("ConfigMap/even was created %d times, and not %d", created["ConfigMap/even"], want))
	}
	delete(created, "ConfigMap/even")
	for id, count := range created {
		if count != 1 {
			problems = append(problems, fmt.Errorf("%s was created %d times", id, count))
		}
	}
	if len(created) != round+1 {
		problems = append(problems, fmt.Errorf("%d objects were for one round, and not %d", len(created), round+1))
	}
	return errors.Join(problems...)
}

// checkHooks: both hooks of every round have run to their end, and one that the
// kill met between its creation and the status ran again: as the agent cannot
// know whether the Job of a name is the one it has just created, it is run again,
// as in Argo CD. One kill can do that to one hook.
func checkHooks(lives []agentprocess.Life, round int) error {
	var problems []error
	for of := range round + 1 {
		count, done := hooksOf(lives, of)
		if count["before"] < 1 || count["after"] < 1 || count["before"]+count["after"] > 3 || !done["before"] || !done["after"] {
			problems = append(problems, fmt.Errorf("the hooks of round %d were created %v, and ended %v", of, count, done))
		}
	}
	return errors.Join(problems...)
}

// pastPreSync reports whether a sync has changed an object: its PreSync hook is
// over then, and was in the status before the agent waited for it.
func pastPreSync(lives []agentprocess.Life, round int) bool {
	return slices.ContainsFunc(lives, func(life agentprocess.Life) bool {
		return life.ID() == "ConfigMap/keep" && value(&life) == strconv.Itoa(round)
	})
}

// repeated is how many hooks ran more than once.
func repeated(lives []agentprocess.Life) (sum int) {
	count := map[string]int{}
	for i := range lives {
		if lives[i].Kind == "Job" {
			count[lives[i].Name+" "+value(&lives[i])]++
		}
	}
	for _, runs := range count {
		sum += runs - 1
	}
	return sum
}
