# SPDX-License-Identifier: Apache-2.0
# What is installed: packages, units, completion.
ps_script_test(deploy_completion deploy/test_completion.py)
ps_script_test(deploy_launch deploy/test_launch.py)
ps_script_test(deploy_slurm deploy/test_slurm.py)
if(NOT SANITIZE) # the packages of a build for users
    ps_script_test(deploy_packages deploy/test_packages.py)
    set_property(TEST deploy_packages APPEND PROPERTY ENVIRONMENT "PSGD_BUILD=${PROJECT_BINARY_DIR}")
endif()
