package pulsartest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// The policies that name what a broker does not have: clusters beside its own, and drivers of an offload. They are kept and nothing
// is copied or offloaded, but what Pulsar refuses is refused.

// policyChecks refuse values of policies, by their paths.
var policyChecks = map[string]func(r *adminRequest, value []byte) error{
	"replication": checkReplication, "allowedClusters": checkAllowedClusters, "offloadPolicies": checkOffload,
}

// clusterList reads a body that write has found to be a list, and whether it names a cluster that does not exist.
func clusterList(value []byte) (clusters []string, err error) {
	if json.Unmarshal(value, &clusters) != nil {
		return nil, adminRefuse(http.StatusBadRequest, "The body must be a list of clusters")
	}
	for _, c := range clusters {
		if c != clusterName {
			err = adminRefuse(http.StatusForbidden, "Invalid cluster id: %s", c)
		}
	}
	return clusters, err
}

func checkReplication(r *adminRequest, value []byte) error {
	clusters, err := clusterList(value)
	switch {
	case err == nil && len(clusters) == 0:
		return adminRefuse(http.StatusPreconditionFailed, "ClusterIds should not be null or empty")
	case r.topic.full != "" && !slices.Contains(clusters, clusterName):
		return adminRefuse(http.StatusPreconditionFailed, "Can not remove local cluster from the local topic-level replication clusters policy")
	}
	return err
}

func checkAllowedClusters(r *adminRequest, value []byte) error {
	clusters, err := clusterList(value)
	switch {
	case err != nil:
		return adminRefuse(http.StatusForbidden, "Cluster %v is not in the list of allowed clusters list for tenant [%s]", clusters, r.PathValue("t"))
	case len(clusters) == 0:
		return adminRefuse(http.StatusBadRequest, "Allowed clusters do not contain the replication cluster [%s]", clusterName)
	}
	return nil
}

var offloadDrivers = []string{"S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss"}

func checkOffload(_ *adminRequest, value []byte) error {
	var p struct {
		Driver string `json:"managedLedgerOffloadDriver"`
		Bucket string `json:"managedLedgerOffloadBucket"`
		S3     string `json:"s3ManagedLedgerOffloadBucket"`
		GCS    string `json:"gcsManagedLedgerOffloadBucket"`
	}
	switch {
	case json.Unmarshal(value, &p) != nil:
		return adminRefuse(http.StatusBadRequest, "The body is no offload policy")
	case !slices.Contains(offloadDrivers, p.Driver):
		return adminRefuse(http.StatusPreconditionFailed, "The driver is not supported, support value: %s", strings.Join(offloadDrivers, ","))
	case p.Driver != "filesystem" && p.Bucket == "" && p.S3 == "" && p.GCS == "":
		return adminRefuse(http.StatusPreconditionFailed, "The bucket must be specified for namespace offload.")
	}
	return nil
}

// offloadLimit is a route of namespaces that reads and sets one field of the offload policy, and makes one without a driver where there
// is none.
type offloadLimit struct {
	policy
	field string
}

var offloadLimits = []offloadLimit{
	{policy{"offloadThreshold", http.MethodPut, "", "-1", "0"}, "managedLedgerOffloadThresholdInBytes"},
	{policy{"offloadThresholdInSeconds", http.MethodPut, "", "-1", "0"}, "managedLedgerOffloadThresholdInSeconds"},
	{policy{"offloadDeletionLagMs", http.MethodPut, "offloadDeletionLagMs", "", "0"}, "managedLedgerOffloadDeletionLagInMillis"},
}

func (l offloadLimit) read(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	value := set.entries("offloadPolicies")[l.field]
	switch {
	case value != nil:
		return value, nil
	case l.initial != "":
		return json.RawMessage(l.initial), nil
	default:
		return nil, nil
	}
}

func (l offloadLimit) write(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	value := bytes.TrimSpace(r.body)
	if !l.fits(value) {
		return nil, adminRefuse(http.StatusBadRequest, "The body is no %s", l.path)
	}
	return nil, set.setEntry("offloadPolicies", l.field, value)
}

func (l offloadLimit) remove(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	return nil, set.setEntry("offloadPolicies", l.field, nil)
}
