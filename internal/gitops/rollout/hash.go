package rollout

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/rand"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// templateHash is the hash that names a ReplicaSet: FNV-1a of the JSON of the
// template. It is that of Argo Rollouts, so that its ReplicaSets are found again.
func templateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	var suffix []byte
	if collisions != nil {
		suffix = binary.LittleEndian.AppendUint32(nil, uint32(*collisions))
		suffix = append(suffix, 0, 0, 0, 0)
	}
	return jsonHash(template, suffix)
}

// stepsHash is the hash of the steps of a canary, by which a change of them is
// noticed; empty for blue-green.
func stepsHash(spec *v1alpha1.RolloutSpec) string {
	if spec.Strategy.Canary == nil {
		return ""
	}
	return jsonHash(spec.Strategy.Canary.Steps, nil)
}

// jsonHash hashes the JSON of a value and a suffix.
func jsonHash(value any, suffix []byte) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "" // the types of Kubernetes and ours always have a JSON form
	}
	hash := fnv.New32a()
	_, _ = hash.Write(text)   // a hash never fails
	_, _ = hash.Write(suffix) // likewise
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// hashOf is the hash of a ReplicaSet; empty without one.
func hashOf(set *appsv1.ReplicaSet) string {
	if set == nil {
		return ""
	}
	return set.Labels[labelHash]
}

// sameTemplate compares templates but for what a controller of Rollouts adds. Both
// have the defaults of the API server. serviceAccount is a copy of
// serviceAccountName that only stored objects have.
func sameTemplate(one, other *corev1.PodTemplateSpec) bool {
	one, other = one.DeepCopy(), other.DeepCopy()
	for _, template := range []*corev1.PodTemplateSpec{one, other} {
		delete(template.Labels, labelHash)
		template.Spec.DeprecatedServiceAccount = ""
	}
	return equality.Semantic.DeepEqual(one, other)
}
