module warmpod/cluster/prometheus

go 1.26.0

tool github.com/prometheus/prometheus/cmd/prometheus

require github.com/prometheus/prometheus v0.313.0
