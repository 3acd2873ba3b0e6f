package health_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// parse reads an object from YAML.
func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(encoded); err != nil {
		t.Fatal(text, err)
	}
	return object
}

// row is an object without apiVersion and kind, and how it is. The message is a
// part of that of the status.
type row struct {
	object  string
	code    health.Code
	message string
}

const (
	healthy     = v1alpha1.Healthy
	suspended   = v1alpha1.Suspended
	progressing = v1alpha1.Progressing
	missing     = v1alpha1.Missing
	degraded    = v1alpha1.Degraded
	unknown     = v1alpha1.Unknown
	none        = health.Code("none")
)

func check(t *testing.T, apiVersion, kind string, rows []row) {
	t.Helper()
	for _, test := range rows {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(test.object), &object.Object); err != nil {
			t.Fatal(test.object, err)
		}
		object.SetAPIVersion(apiVersion)
		object.SetKind(kind)
		got := health.NewRules(nil).Of(object, noon)
		if got == nil {
			got = &health.Status{Code: none}
		}
		if got.Code != test.code || !strings.Contains(got.Message, test.message) {
			t.Errorf("%s %s\n%s\nis %s %q, want %s %q", apiVersion, kind, test.object, got.Code, got.Message, test.code, test.message)
		}
	}
}

// TestDeployment: Argo CD's rules, in their order.
func TestDeployment(t *testing.T) {
	check(t, "apps/v1", "Deployment", []row{
		{`spec: {paused: true}`, suspended, "paused"},
		{`{metadata: {generation: 2}, spec: {paused: true}, status: {observedGeneration: 1}}`, suspended, ""},
		{`{metadata: {generation: 2}, status: {observedGeneration: 1}}`, progressing, "seen by the controller"},
		{`status: {conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: no Pod}]}`, degraded, "no Pod"},
		{`status: {conditions: [{type: Progressing, status: "True", reason: NewReplicaSetAvailable}]}`, healthy, ""},
		{`{spec: {replicas: 2}, status: {updatedReplicas: 1}}`, progressing, "1 of 2 replicas are updated"},
		{`{spec: {replicas: 2}, status: {updatedReplicas: 2, replicas: 3, availableReplicas: 3}}`, progressing, "1 old replicas"},
		{`{spec: {replicas: 2}, status: {updatedReplicas: 2, replicas: 2, availableReplicas: 1}}`, progressing, "1 of 2 updated replicas are available"},
		{`{metadata: {generation: 4}, spec: {replicas: 2}, status: {observedGeneration: 4, updatedReplicas: 2, replicas: 2, availableReplicas: 2}}`, healthy, ""},
		{`{spec: {replicas: 0}}`, healthy, ""},
	})
	check(t, "extensions/v1beta1", "Deployment", []row{{`spec: {paused: true}`, suspended, ""}})
}

func TestStatefulSet(t *testing.T) {
	check(t, "apps/v1", "StatefulSet", []row{
		{`status: {}`, progressing, "seen by the controller"},
		{`{metadata: {generation: 2}, status: {observedGeneration: 1}}`, progressing, "seen by the controller"},
		{`{spec: {replicas: 3}, status: {observedGeneration: 1, readyReplicas: 1}}`, progressing, "2 Pods"},
		{`{spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}, status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 1}}`, progressing, "1 of 2"},
		{`{spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}, status: {observedGeneration: 1, readyReplicas: 3, updatedReplicas: 2, updateRevision: b}}`, healthy, ""},
		{`{spec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {}}}, status: {observedGeneration: 1, readyReplicas: 3, updateRevision: b}}`, healthy, ""},
		{`{spec: {replicas: 1, updateStrategy: {type: OnDelete}}, status: {observedGeneration: 1, readyReplicas: 1, updateRevision: b}}`, healthy, "1 ready"},
		{`{spec: {replicas: 1, updateStrategy: {type: RollingUpdate}}, status: {observedGeneration: 1, readyReplicas: 1, currentRevision: a, updateRevision: b}}`, progressing, "revision b"},
		{`{spec: {replicas: 1}, status: {observedGeneration: 1, readyReplicas: 1, currentRevision: a, updateRevision: a}}`, healthy, "revision a"},
	})
}

func TestDaemonSetAndReplicaSet(t *testing.T) {
	check(t, "apps/v1", "DaemonSet", []row{
		{`{metadata: {generation: 2}, status: {observedGeneration: 1}}`, progressing, "seen by the controller"},
		{`{spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 2}}`, healthy, "0 of 2"},
		{`status: {desiredNumberScheduled: 2, updatedNumberScheduled: 1}`, progressing, "1 of 2 Pods are updated"},
		{`status: {desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}`, progressing, "1 of 2 updated Pods are available"},
		{`status: {desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}`, healthy, ""},
	})
	check(t, "apps/v1", "ReplicaSet", []row{
		{`{metadata: {generation: 2}, status: {observedGeneration: 1}}`, progressing, ""},
		{`{spec: {replicas: 2}, status: {conditions: [{type: ReplicaFailure, status: "True", message: quota}]}}`, degraded, "quota"},
		{`{spec: {replicas: 2}, status: {conditions: [{type: ReplicaFailure, status: "False"}], availableReplicas: 1}}`, progressing, "1 of 2"},
		{`{spec: {replicas: 2}, status: {availableReplicas: 2}}`, healthy, ""},
	})
}

func TestPod(t *testing.T) {
	const always = `spec: {restartPolicy: Always}` + "\n"
	check(t, "v1", "Pod", []row{
		{always + `status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: ImagePullBackOff, message: no image}}}]}`, degraded, "no image"},
		{always + `status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: ErrImagePull}}}]}`, degraded, "ErrImagePull"},
		{always + `status: {phase: Running, containerStatuses: [{state: {waiting: {reason: CreateContainerConfigError, message: a}}}, {state: {waiting: {reason: CrashLoopBackOff, message: b}}}]}`, degraded, "a, b"},
		{always + `status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: ContainerCreating}}}]}`, progressing, ""},
		{`{spec: {restartPolicy: Never}, status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: ImagePullBackOff}}}]}}`, progressing, ""},
		{`status: {phase: Succeeded, message: done}`, healthy, "done"},
		{`status: {phase: Failed, message: evicted}`, degraded, "evicted"},
		{`status: {phase: Failed, containerStatuses: [{state: {terminated: {exitCode: 0}}}, {name: b, state: {terminated: {exitCode: 7}}}]}`, degraded, `container "b" failed with exit code 7`},
		{`status: {phase: Failed, initContainerStatuses: [{state: {terminated: {message: broken}}}]}`, degraded, "broken"},
		{`status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {reason: OOMKilled, exitCode: 137}}}]}`, degraded, "OOMKilled"},
		{`status: {phase: Failed}`, degraded, ""},
		{always + `status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`, healthy, ""},
		{always + `status: {phase: Running, containerStatuses: [{lastState: {terminated: {exitCode: 1}}}]}`, degraded, ""},
		{always + `status: {phase: Running, conditions: [{type: Ready, status: "False"}]}`, progressing, ""},
		{`{spec: {restartPolicy: OnFailure}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, progressing, ""},
		{`status: {phase: Running}`, unknown, ""},
		{`status: {}`, unknown, ""},
	})
}

func TestBatch(t *testing.T) {
	check(t, "batch/v1", "Job", []row{
		{`status: {active: 1}`, progressing, "complete"},
		{`status: {conditions: [{type: Complete, status: "True", message: done}]}`, healthy, "done"},
		{`status: {conditions: [{type: Failed, status: "True", message: three times}]}`, degraded, "three times"},
		{`status: {conditions: [{type: Complete, status: "True"}, {type: Failed, status: "True"}]}`, degraded, ""},
		{`status: {conditions: [{type: Suspended, status: "True", message: stopped}]}`, suspended, "stopped"},
		{`status: {conditions: [{type: Suspended, status: "False"}]}`, healthy, ""},
		{`status: {conditions: [{type: SuccessCriteriaMet, status: "True"}]}`, progressing, ""},
		{`status: {conditions: [{type: Failed, status: "False"}]}`, progressing, ""},
	})
	check(t, "batch/v1", "CronJob", []row{
		{`spec: {suspend: true}`, healthy, "suspended"},
		{`spec: {}`, progressing, ""},
		{`status: {lastSuccessfulTime: "2026-01-01T00:00:00Z"}`, healthy, "not scheduled"},
		{`status: {lastScheduleTime: "2026-01-01T00:00:00Z"}`, healthy, "not completed"},
		{`status: {active: [{name: a}], lastScheduleTime: "2026-01-02T00:00:00Z", lastSuccessfulTime: "2026-01-01T00:00:00Z"}`, healthy, "running"},
		{`status: {lastScheduleTime: "2026-01-02T00:00:00Z", lastSuccessfulTime: "2026-01-01T00:00:00Z"}`, degraded, "did not succeed"},
		{`status: {lastScheduleTime: "2026-01-02T00:00:00Z", lastSuccessfulTime: "2026-01-02T00:00:07Z"}`, healthy, "succeeded"},
	})
	check(t, "argoproj.io/v1alpha1", "Workflow", []row{
		{`status: {phase: Running, message: on it}`, progressing, "on it"},
		{`spec: {}`, progressing, ""},
		{`status: {phase: Succeeded}`, healthy, ""},
		{`status: {phase: Error}`, degraded, ""},
		{`status: {phase: Lost}`, unknown, ""},
	})
}

func TestServicesAndVolumes(t *testing.T) {
	for _, version := range []string{"networking.k8s.io/v1", "extensions/v1beta1"} {
		check(t, version, "Ingress", []row{
			{`spec: {}`, progressing, "address"},
			{`status: {loadBalancer: {ingress: []}}`, progressing, "address"},
			{`status: {loadBalancer: {ingress: [{}]}}`, healthy, ""},
		})
	}
	check(t, "v1", "Service", []row{
		{`spec: {}`, healthy, ""},
		{`spec: {type: ClusterIP}`, healthy, ""},
		{`spec: {type: LoadBalancer}`, progressing, "address"},
		{`{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}`, healthy, ""},
	})
	check(t, "v1", "PersistentVolumeClaim", []row{
		{`status: {phase: Bound}`, healthy, ""},
		{`status: {phase: Pending}`, progressing, "volume"},
		{`status: {phase: Lost}`, degraded, "lost"},
		{`status: {}`, unknown, ""},
	})
}

func TestAutoscaler(t *testing.T) {
	rows := func(conditions func(string) string) []row {
		return []row{
			{conditions(`[]`), progressing, "first scaling"},
			{conditions(`[{"type":"AbleToScale","status":"True","reason":"SucceededGetScale"},{"type":"ScalingActive","status":"False","reason":"FailedGetResourceMetric","message":"no metrics"}]`), degraded, "no metrics"},
			{conditions(`[{"type":"ScalingActive","status":"False","reason":"FailedGetExternalMetric"}]`), degraded, "FailedGetExternalMetric"},
			{conditions(`[{"type":"ScalingActive","status":"False","reason":"FailedComputeMetricsReplicas"}]`), degraded, ""},
			{conditions(`[{"type":"ScalingActive","status":"False","reason":"InvalidSelector"}]`), degraded, ""},
			{conditions(`[{"type":"AbleToScale","status":"False","reason":"FailedGetScale","message":"no scale"}]`), degraded, "no scale"},
			{conditions(`[{"type":"AbleToScale","status":"False","reason":"FailedUpdateScale"}]`), degraded, ""},
			{conditions(`[{"type":"AbleToScale","status":"True","reason":"SucceededRescale","message":"ok"}]`), healthy, "ok"},
			{conditions(`[{"type":"ScalingLimited","status":"True","reason":"TooFewReplicas"}]`), healthy, ""},
			{conditions(`[{"type":"ScalingActive","status":"True","reason":"ValidMetricFound"}]`), progressing, ""},
		}
	}
	check(t, "autoscaling/v2", "HorizontalPodAutoscaler", rows(func(text string) string { return `status: {conditions: ` + text + `}` }))
	check(t, "autoscaling/v1", "HorizontalPodAutoscaler", rows(func(text string) string {
		return `metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '` + text + `'}}`
	}))
	check(t, "autoscaling/v1", "HorizontalPodAutoscaler", []row{
		{`metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: 'x'}}`, progressing, ""},
		{`spec: {}`, progressing, ""},
	})
	check(t, "autoscaling/v2beta2", "HorizontalPodAutoscaler", []row{{`spec: {}`, unknown, "autoscaling/v2"}})
}

func TestDefinitions(t *testing.T) {
	check(t, "apiregistration.k8s.io/v1", "APIService", []row{
		{`spec: {}`, progressing, "available"},
		{`status: {conditions: [{type: Available, status: "False", message: no endpoints}]}`, progressing, "no endpoints"},
		{`status: {conditions: [{type: Available, status: "True"}]}`, healthy, ""},
	})
	check(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", []row{
		{`spec: {}`, progressing, "names"},
		{`status: {conditions: [{type: NamesAccepted, status: "False", message: taken}]}`, degraded, "taken"},
		{`status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "False", reason: Installing}]}`, progressing, "served"},
		{`status: {conditions: [{type: NamesAccepted, status: "True"}]}`, progressing, "served"},
		{`status: {conditions: [{type: Established, status: "False", reason: Conflict, message: no}]}`, degraded, "no"},
		{`status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}`, healthy, ""},
		{`status: {conditions: [{type: Established, status: "True"}, {type: NonStructuralSchema, status: "True", message: bad}]}`, degraded, "bad"},
		{`status: {conditions: [{type: Terminating, status: "True", message: going}]}`, progressing, "going"},
	})
	check(t, "policy/v1", "PodDisruptionBudget", []row{
		{`spec: {}`, progressing, "status"},
		{`status: {conditions: [{type: DisruptionAllowed, status: "True", reason: SufficientPods}]}`, healthy, "SufficientPods"},
		{`status: {conditions: [{type: DisruptionAllowed, status: "False", reason: InsufficientPods}]}`, healthy, "InsufficientPods"},
		{`status: {conditions: [{type: DisruptionAllowed, status: "False", reason: SyncFailed, message: no controller}]}`, degraded, "no controller"},
	})
}

func TestApplications(t *testing.T) {
	check(t, "argoproj.io/v1alpha1", "Application", []row{
		{`spec: {}`, progressing, "first comparison"},
		{`status: {health: {status: Degraded, message: a Pod fails}}`, degraded, "a Pod fails"},
		{`status: {health: {status: Missing}}`, missing, ""},
		{`status: {health: {status: Healthy}, conditions: [{type: InvalidSpecError, message: bad}]}`, healthy, ""},
		{`status: {health: {status: Unknown}, conditions: [{type: InvalidSpecError, message: bad}]}`, degraded, "bad"},
		{`status: {health: {status: Splendid}}`, unknown, "Splendid"},
	})
	check(t, "argoproj.io/v1alpha1", "ApplicationSet", []row{
		{`spec: {}`, progressing, ""},
		{`status: {conditions: [{type: ErrorOccurred, status: "True", message: no repository}]}`, degraded, "no repository"},
		{`status: {conditions: [{type: ErrorOccurred, status: "False"}, {type: ResourcesUpToDate, status: "True"}]}`, healthy, ""},
	})
	// An Application of another project is not ours.
	check(t, "app.k8s.io/v1beta1", "Application", []row{{`status: {health: {status: Degraded}}`, none, ""}})
}

// TestOtherKinds: kinds without a rule of their own are judged by conditions.
func TestOtherKinds(t *testing.T) {
	check(t, "v1", "ConfigMap", []row{{`data: {a: b}`, none, ""}})
	check(t, "example.com/v1", "Database", []row{
		{`spec: {}`, none, ""},
		{`status: {}`, none, ""},
		{`status: {phase: Failed}`, none, ""},
		{`{metadata: {generation: 3}, status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}}`, progressing, "seen by the controller"},
		{`{metadata: {generation: 3}, status: {conditions: [{type: Ready, status: "True", observedGeneration: 2}]}}`, progressing, "seen by the controller"},
		{`{metadata: {generation: 3}, status: {observedGeneration: 3, conditions: [{type: Ready, status: "True", message: up}]}}`, healthy, "up"},
		{`status: {conditions: [{type: Ready, status: "False", reason: Waiting}]}`, progressing, "Waiting"},
		{`status: {conditions: [{type: Ready, status: "Unknown"}]}`, progressing, "Ready is Unknown"},
		{`status: {conditions: [{type: Ready, status: "True"}, {type: Stalled, status: "True", message: no quota}]}`, degraded, "no quota"},
		{`status: {conditions: [{type: Failed, status: "True"}]}`, degraded, "Failed"},
		{`status: {conditions: [{type: Failed, status: "False"}]}`, none, ""},
		{`status: {conditions: [{type: Reconciling, status: "True", message: again}, {type: Ready, status: "True"}]}`, progressing, "again"},
		{`status: {conditions: [{type: Available, status: "True"}]}`, healthy, ""},
		{`status: {conditions: [{type: Succeeded, status: "True"}]}`, healthy, ""},
		{`status: {conditions: [{type: Succeeded, status: "Unknown", message: runs}]}`, progressing, "runs"},
		{`status: {conditions: [{type: Succeeded, status: "False", message: broke}]}`, degraded, "broke"},
		{`status: {conditions: [{type: Synced, status: "False"}]}`, none, ""},
	})
}

// TestObservedGenerationOfAnyType: a generation that cannot be compared never
// keeps an object waiting.
func TestObservedGenerationOfAnyType(t *testing.T) {
	for _, kind := range []struct{ apiVersion, name, rest string }{
		{"example.com/v1", "Database", `conditions: [{type: Ready, status: "True"}]`},
		{"apps/v1", "Deployment", ``},
		{"apps/v1", "StatefulSet", ``},
		{"apps/v1", "DaemonSet", ``},
		{"apps/v1", "ReplicaSet", ``},
		{"argoproj.io/v1alpha1", "Rollout", `phase: Healthy`},
	} {
		status := func(observed string) string {
			return `{metadata: {generation: 3}, spec: {}, status: {observedGeneration: ` + observed + `, ` + kind.rest + `}}`
		}
		check(t, kind.apiVersion, kind.name, []row{
			{status(`3`), healthy, ""},
			{status(`3.0`), healthy, ""},
			{status(`"3"`), healthy, ""},
			{status(`"4"`), healthy, ""},
			{status(`"7d9f8c"`), healthy, ""},
			{status(`""`), healthy, ""},
			{status(`"99999999999999999999"`), healthy, ""},
			{status(`1e300`), healthy, ""},
			{status(`true`), healthy, ""},
			{status(`[3]`), healthy, ""},
			{status(`{a: 3}`), healthy, ""},
			{status(`2`), progressing, "seen by the controller"},
			{status(`"2"`), progressing, "seen by the controller"},
			{status(`0`), progressing, "seen by the controller"},
		})
	}
	check(t, "example.com/v1", "Database", []row{
		{`{metadata: {generation: 3}, status: {conditions: [{type: Ready, status: "True", observedGeneration: "2"}]}}`, progressing, "seen by the controller"},
		{`{metadata: {generation: 3}, status: {conditions: [{type: Ready, status: "True", observedGeneration: "3"}]}}`, healthy, ""},
		{`{metadata: {generation: 3}, status: {conditions: [{type: Ready, status: "True", observedGeneration: "abc"}]}}`, healthy, ""},
	})
	check(t, "apps/v1", "StatefulSet", []row{{`{spec: {replicas: 0}, status: {}}`, progressing, "seen by the controller"}})
	// A status without it was not written by the controller yet.
	check(t, "apps/v1", "Deployment", []row{{`{metadata: {generation: 1}, spec: {replicas: 0}, status: {}}`, progressing, "seen by the controller"}})
}

// TestDeletion: what is being deleted is Progressing, whatever its kind, and
// Degraded when that takes too long.
func TestDeletion(t *testing.T) {
	check(t, "v1", "ConfigMap", []row{
		{`metadata: {deletionTimestamp: "2026-03-01T11:59:00Z"}`, progressing, "Pending deletion"},
		{`metadata: {deletionTimestamp: "2026-03-01T11:59:00Z", finalizers: [example.com/a, example.com/b]}`, progressing, "example.com/a, example.com/b"},
		{`metadata: {deletionTimestamp: "2026-03-01T11:49:00Z", finalizers: [example.com/a]}`, degraded, "longer than 10m0s: Pending deletion, which waits for the finalizers example.com/a"},
		{`metadata: {deletionTimestamp: "2026-03-01T11:49:00Z", annotations: {slipway.dev/progress-deadline: 1h}}`, progressing, ""},
		{`metadata: {deletionTimestamp: "yesterday"}`, progressing, "Pending deletion"},
	})
	check(t, "batch/v1", "Job", []row{
		{`{metadata: {deletionTimestamp: "2026-03-01T11:59:00Z", finalizers: [argocd.argoproj.io/hook-finalizer]}, status: {conditions: [{type: Complete, status: "True"}]}}`, healthy, ""},
	})
	if got := health.NewRules(nil).Of(nil, noon); got == nil || got.Code != missing {
		t.Errorf("no object is %v", got)
	}
}

// FuzzOf: no object makes the rules panic, and the same object is the same.
func FuzzOf(f *testing.F) {
	f.Add("apps/v1", "Deployment", `{"spec":{"replicas":"many","paused":1},"status":{"conditions":[1,{"type":2}]}}`)
	f.Add("v1", "Pod", `{"spec":{"restartPolicy":"Always"},"status":{"phase":"Failed","containerStatuses":[null,{"state":[]}]}}`)
	f.Add("autoscaling/v1", "HorizontalPodAutoscaler", `{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/conditions":"[null]"}}}`)
	f.Add("x/y/z", "", `{"metadata":{"deletionTimestamp":0,"finalizers":{},"annotations":{"slipway.dev/progress-deadline":"1h"}}}`)
	f.Add("argoproj.io/v1alpha1", "Rollout", `{"metadata":{"generation":2},"spec":{"workloadRef":1,"strategy":[]},"status":{"observedGeneration":"x","pauseConditions":{}}}`)
	f.Add("argoproj.io/v1alpha1", "Application", `{"status":{"health":"Healthy","conditions":{}}}`)
	f.Fuzz(func(t *testing.T, apiVersion, kind, text string) {
		var content map[string]any
		if json.Unmarshal([]byte(text), &content) != nil || content == nil {
			return
		}
		content["apiVersion"], content["kind"] = apiVersion, kind
		object := &unstructured.Unstructured{Object: content}
		got := health.NewRules(nil).Of(object, noon)
		limit, _ := health.Deadline(object)
		if limit < 0 {
			t.Errorf("the deadline is %s", limit)
		}
		later := health.WithDeadline(got, object, noon, noon.Add(1000*time.Hour))
		health.Aggregate([]health.Resource{{Live: true, Health: later, Ignored: health.Ignored(object)}})
		if again := health.NewRules(nil).Of(object, noon); (got == nil) != (again == nil) || got != nil && *got != *again {
			t.Errorf("%v and then %v", got, again)
		}
		if got != nil && (len(got.Message) > 600 || got.Code == "") {
			t.Errorf("%+v", got)
		}
	})
}
