"""What tests share: processes, servers, disks that fail, samples, generators."""
